#include "launcher/dashboard/run_data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <utility>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/core/run_history.h"
#include "launcher/dashboard/json_members.h"
#include "lib/base/user_account.h"
#include "lib/observe/metrics_log.h"
#include "lib/samples/sample_reader.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

constexpr std::size_t kTailBytes = 64u << 10, kTailBytesMax = 1u << 20;
constexpr std::size_t kJsonBytesMax = 4u << 20, kNoteBytesMax = 64u << 10;
constexpr std::string_view kRankZero = R"({"rank":0,)";

/// Return the newest report of rank 0 in the last part of a report log, which begins with a line
/// end or within a line.
std::optional<ReportRecord> newest_in(std::string_view text) {
  text = text.substr(0, text.rfind('\n') == text.npos ? 0 : text.rfind('\n'));
  while (!text.empty()) {
    const std::size_t begin = text.rfind('\n');
    if (begin == text.npos) return std::nullopt;
    const std::string_view line = text.substr(begin + 1);
    if (line.starts_with(kRankZero)) return parse_report_line(line);
    text = text.substr(0, begin);
  }
  return std::nullopt;
}

std::string name_of(std::optional<std::uint32_t> uid) {
  if (!uid) return {};
  const auto account = find_account(static_cast<uid_t>(*uid));
  return account ? account->name : std::to_string(*uid);
}

}  // namespace

boost::json::object read_object(const FolderFiles& files, const std::string& name,
                                std::size_t bytes_max) {
  const auto read = files.read_whole(name, bytes_max);
  boost::system::error_code failed;
  auto json = boost::json::parse(read ? read->text : "", failed);
  return !failed && json.is_object() ? std::move(json.get_object()) : boost::json::object{};
}

void JsonFile::update(const FolderFiles& files) {
  const auto stamp = files.stamp(name_);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  object_ = read_object(files, name_, kJsonBytesMax);
}

RunData::RunData(std::string id, FolderFiles files, std::string location,
                 std::optional<TrialOfSweep> trial)
    : id_(std::move(id)),
      location_(std::move(location)),
      name_(std::filesystem::path(location_).filename().string()),
      trial_(std::move(trial)),
      files_(std::move(files)),
      owner_(name_of(files_.owner())) {}

void RunData::update() {
  journal_.update();
  exit_.update(files_);
  live_ = files_.is_locked();
  if (!live_ && location_ != files_.folder())
    live_ = !running_elsewhere(RunFolder(files_.folder())).empty();
  read_newest_report();
  read_time();
}

bool RunData::is_ours() const {
  const auto owner = files_.owner();
  return live_ && files_.is_locked() && owner && (*owner == ::geteuid() || ::geteuid() == 0);
}

RunRow RunData::row() const {
  RunRow row;
  row.id = id_;
  row.name = name_;
  row.path = location_;
  row.owner = owner_;
  row.live = live_;
  put_view(row, view(), !exit().empty(), text_member(exit(), "cause"),
           std::chrono::system_clock::now());
  if (report_) put_report(row, *report_);
  put_time(row, time());
  row.error = journal_.damage();
  row.trial = trial_;
  return row;
}

const boost::json::object& RunData::run_json() {
  run_json_.update(files_);
  return run_json_.object();
}

const RankSeriesReader& RunData::series(std::int32_t rank) {
  auto& reader = series_[rank];
  if (reader == nullptr) {
    reader = std::make_unique<RankSeriesReader>(files_, rank);
    for (auto old = series_.begin(); series_.size() > kSeriesMax;)
      old = old->first == rank || old->first == 0 ? std::next(old) : series_.erase(old);
  }
  reader->update();
  return *reader;
}

const RankReportsReader& RunData::reports() {
  if (reports_ == nullptr) reports_ = std::make_unique<RankReportsReader>(files_);
  reports_->update();
  return *reports_;
}

const std::vector<SampleTable>& RunData::samples() {
  constexpr const char* kName = ".samples.now.jsonl";
  const auto stamp = files_.stamp(kName);
  if (stamp == samples_stamp_) return samples_;
  samples_stamp_ = stamp;
  samples_.clear();
  const auto file = files_.open(kName);
  if (!file) return samples_;
  auto tables = read_newest_samples(*file);
  if (tables) samples_ = std::move(*tables);
  return samples_;
}

const OutputTimesReader* RunData::times(std::int64_t attempt) {
  const auto file = files_.open(fmt::format("attempts/{:03}/output.times", attempt));
  if (!file) return nullptr;
  if (!times_ || times_->first != attempt) times_.emplace(attempt, OutputTimesReader(""));
  times_->second.update(*file);
  return &times_->second;
}

TimeAccounts RunData::time_of(const AttemptView& attempt) const {
  const bool noted = &attempt == view().newest() && attempt.ended.empty();
  return noted ? newest_time_ : attempt.time;
}

TimeAccounts RunData::time() const {
  TimeAccounts time = told_time_;
  if (time.total() > Duration{}) return time;
  for (const AttemptView& attempt : view().attempts) time += attempt.time;  // no note yet
  return time;
}

/// Read what the launcher has written last: at the run's end run.json, before it goodput.json.
void RunData::read_time() {
  const AttemptView* newest = view().newest();
  if (newest == nullptr) return;
  const std::string note = fmt::format("attempts/{:03}/goodput.json", newest->attempt);
  const bool over = is_end_state(view().state);
  const std::array stamps{over ? files_.stamp("run.json") : std::nullopt, files_.stamp(note)};
  if (stamps == time_stamps_) return;
  time_stamps_ = stamps;
  const boost::json::object noted = read_object(files_, note, kNoteBytesMax);
  newest_time_ = time_in(noted);
  told_time_ = run_time_in(
      stamps[0] ? read_object(files_, "run.json", kJsonBytesMax) : boost::json::object{}, noted);
}

void RunData::forget() {
  times_.reset();
  series_.clear();
  reports_.reset();
  samples_.clear();
  samples_stamp_.reset();
}

void RunData::read_newest_report() {
  const auto stamp = files_.stamp("metrics.jsonl");
  if (stamp == metrics_stamp_) return;
  metrics_stamp_ = stamp;
  if (!stamp) report_.reset();
  if (!stamp) return;
  for (std::size_t bytes = kTailBytes; bytes <= kTailBytesMax; bytes *= 4) {
    const std::uint64_t begin = stamp->bytes > bytes ? stamp->bytes - bytes : 0;
    const auto read = files_.read("metrics.jsonl", begin, bytes);
    if (!read) return;
    auto found = newest_in(begin == 0 ? "\n" + read->text : read->text);
    if (found) {
      report_ = std::move(found);
      return;
    }
    if (begin == 0) return;
  }
}

}  // namespace train
