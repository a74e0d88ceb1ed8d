#include "launcher/dashboard/sweeps/sweep_data.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "launcher/cluster/sweep/sweep_folder.h"
#include "launcher/core/search/trial_values.h"
#include "launcher/dashboard/run_catalog.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/user_account.h"

namespace train {
namespace {

constexpr std::size_t kSpecBytesMax = 1u << 20;

std::string name_of(std::optional<std::uint32_t> uid) {
  if (!uid) return {};
  const auto account = find_account(static_cast<uid_t>(*uid));
  return account ? account->name : std::to_string(*uid);
}

std::string folder_of(int trial, int part) {
  return "trials/" + SweepFolder::trial_name(trial, part);
}

bool counts(const TrialView& trial) { return trial.end != "failed" && trial.end != "invalid"; }

}  // namespace

std::optional<int> trial_number(std::string_view text) {
  int trial = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), trial);
  const bool whole = failed == std::errc() && end == text.data() + text.size();
  return whole && trial >= 0 && trial < kTrialsMax ? std::optional(trial) : std::nullopt;
}

std::optional<int> trial_in(std::string_view name) {
  const std::size_t point = name.find('.');
  const auto trial = trial_number(name.substr(0, point));
  const auto part = point == name.npos ? 1 : trial_number(name.substr(point + 1));
  return trial && part && name == SweepFolder::trial_name(*trial, *part) ? trial : std::nullopt;
}

SweepData::SweepData(std::string id, FolderFiles files)
    : id_(std::move(id)),
      name_(std::filesystem::path(files.folder()).filename().string()),
      files_(std::move(files)),
      owner_(name_of(files_.owner())) {}

void SweepData::update() {
  (void)lines_.update(
      files_, std::numeric_limits<std::uint64_t>::max(),
      [&](std::string_view line, std::uint64_t) { return take(line); },
      [&] {
        table_ = TrialTable();
        damage_.clear();
        curves_.clear();
        ++readings_;
      });
  if (lines_.failed()) damage_ = "a line of sweep.jsonl is too long";
  const bool live = files_.is_locked();
  if (live != std::exchange(live_, live))  // of running trials, the states have changed
    for (TrialView& trial : table_.trials)
      if (trial.end.empty()) trial.changed = ++table_.version;
  read_search();
  follow();
}

bool SweepData::take(std::string_view line) {
  const auto record = parse_record(line);
  if (!record || record->seq != table_.last_seq + 1) {
    damage_ = fmt::format("sweep.jsonl cannot be read behind record {}: {}", table_.last_seq,
                          record ? "the next one is out of sequence" : record.error().message);
    return false;
  }
  damage_.clear();
  table_.add(*record);
  return true;
}

void SweepData::read_search() {
  const auto stamp = files_.stamp("spec.resolved.yaml");
  if (stamp == spec_stamp_) return;
  spec_stamp_ = stamp;
  search_.reset();
  curves_.clear();
  const auto text = files_.read_whole("spec.resolved.yaml", kSpecBytesMax);
  if (!text) return;
  SpecSource source;
  source.path = "spec.resolved.yaml";
  source.home = home_folder();
  auto parsed = parse_job_spec_text(text->text, source);
  if (auto* whole = std::get_if<ParsedSpec>(&parsed)) search_ = std::move(whole->sweep);
}

/// Read what trials have reported that have not ended; the journal tells only what was decisive.
void SweepData::follow() {
  if (!search_) return;
  std::uint64_t bytes = kUpdateBytesMax;
  std::size_t followed = 0;
  for (std::size_t i = table_.trials.size(); i-- > 0 && followed < kFollowedMax && bytes > 0;) {
    TrialView& trial = table_.trials[i];
    if (!trial.end.empty()) continue;
    ++followed;
    TrialCurve& curve = curve_of(static_cast<int>(i));
    const std::uint64_t before = curve.reports();
    (void)curve.update(files_, bytes);
    if (curve.reports() != before) trial.changed = ++table_.version;
  }
}

TrialCurve& SweepData::curve_of(int trial) {
  const std::vector<TrialPart>& parts = table_.trials[static_cast<std::size_t>(trial)].parts;
  const auto add_parts = [&](TrialCurve& curve) -> TrialCurve& {
    for (std::size_t i = curve.parts(); i < parts.size(); ++i)
      curve.add_part(folder_of(trial, parts[i].number), parts[i].at);
    return curve;
  };
  const auto known = curves_.find(trial);
  if (known != curves_.end()) return add_parts(known->second);
  for (auto old = curves_.begin(); curves_.size() >= kCurvesMax && old != curves_.end();)
    old = table_.trials[static_cast<std::size_t>(old->first)].end.empty() ? std::next(old)
                                                                          : curves_.erase(old);
  return add_parts(
      curves_.emplace(trial, TrialCurve(search_.value_or(SearchSpec()))).first->second);
}

const TrialCurve& SweepData::curve(int trial, std::uint64_t& bytes_max, bool& more) {
  TrialCurve& curve = curve_of(trial);
  more = bytes_max == 0 || curve.update(files_, bytes_max);
  return curve;
}

std::string SweepData::damage() const {
  if (!damage_.empty()) return damage_;
  if (!table_.odd.empty()) return table_.odd;
  return search_ ? "" : "spec.resolved.yaml has no section sweep that can be read";
}

std::string_view SweepData::state() const {
  if (live_) return "running";
  if (!table_.code) return "interrupted";
  return *table_.code == exit_code::kOk ? "finished" : "errored";
}

std::optional<std::int64_t> SweepData::planned() const {
  if (!search_) return std::nullopt;
  if (table_.searcher_done) return std::ssize(table_.trials);
  const auto invalid = std::count_if(table_.trials.begin(), table_.trials.end(),
                                     [](const TrialView& one) { return one.end == "invalid"; });
  return trials_in_all(*search_, static_cast<int>(invalid), table_.more);
}

TrialRow SweepData::row(int trial) const {
  const TrialView& view = table_.trials[static_cast<std::size_t>(trial)];
  TrialRow row{.trial = trial,
               .run = run_id_of(files_.folder() + "/" + folder_of(trial, view.parts.back().number)),
               .state = view.end,
               .view = &view,
               .time = view.time,
               .value = view.value,
               .best = view.best,
               .best_time = view.best_time};
  if (!view.end.empty()) return row;
  row.state = live_ ? "running" : "interrupted";
  const auto curve = curves_.find(trial);
  if (curve == curves_.end()) return row;
  row.time = curve->second.time();
  row.value = curve->second.value();
  row.best = curve->second.best();
  row.best_time = curve->second.best_time();
  return row;
}

std::optional<int> SweepData::best() const {
  const bool least = !search_ || search_->mode == SearchMode::Min;
  std::optional<int> best;
  double value = 0;
  for (std::size_t i = 0; i < table_.trials.size(); ++i) {
    const TrialView& view = table_.trials[i];
    auto its = view.best;
    if (view.end.empty()) {
      const auto curve = curves_.find(static_cast<int>(i));
      its = curve != curves_.end() ? curve->second.best() : std::nullopt;
    }
    if (!its || !std::isfinite(*its) || !counts(view)) continue;
    if (best && (least ? *its >= value : *its <= value)) continue;
    best = static_cast<int>(i);
    value = *its;
  }
  return best;
}

std::uint64_t SweepData::version(int trial) const {
  return table_.trials[static_cast<std::size_t>(trial)].changed;
}

}  // namespace train
