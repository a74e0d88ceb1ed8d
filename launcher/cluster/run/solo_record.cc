#include "launcher/cluster/run/solo_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <utility>

#include "lib/observe/metrics_log.h"

namespace train {
namespace {

constexpr std::size_t kReadBytes = 1u << 20;
constexpr std::size_t kLineBytesMax = 4u << 20;

std::string text_of(const boost::json::object& object, std::string_view name) {
  const boost::json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

void take_saying(const std::string& line, SoloRecord::News& news) {
  boost::system::error_code ec;
  const boost::json::value parsed = boost::json::parse(line, ec);
  if (ec || !parsed.is_object()) return;
  const boost::json::object& saying = parsed.as_object();
  if (const auto* number = saying.if_contains("report_seq");
      number != nullptr && number->is_int64() && number->as_int64() > 0)
    news.checkpoints.push_back(
        {text_of(saying, "checkpoint"), static_cast<std::uint64_t>(number->as_int64())});
  if (const auto* result = saying.if_contains("result"))
    news.result = boost::json::serialize(*result);
  if (const auto* error = saying.if_contains("error"); error != nullptr && error->is_object()) {
    const boost::json::object& thrown = error->as_object();
    news.error = UserError{.what = text_of(thrown, "what"),
                           .type = text_of(thrown, "type"),
                           .stack = text_of(thrown, "stack")};
  }
}

}  // namespace

std::vector<std::string> AppendedLines::take() {
  at_end_ = true;
  if (file_.get() < 0) {
    file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat found {};
    if (file_.get() < 0 || ::fstat(file_.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
      file_.reset(-1);
      return {};
    }
  }
  std::string buffer(kReadBytes, '\0');
  const ssize_t count = ::read(file_.get(), buffer.data(), buffer.size());
  if (count <= 0) return {};
  at_end_ = false;
  buffer.resize(static_cast<std::size_t>(count));
  std::vector<std::string> lines;
  std::size_t from = 0;
  for (std::size_t end; (end = buffer.find('\n', from)) != std::string::npos; from = end + 1) {
    pending_.append(buffer, from, end - from);
    if (!std::exchange(too_long_, false)) lines.push_back(std::move(pending_));
    pending_.clear();
  }
  pending_.append(buffer, from);
  if (pending_.size() > kLineBytesMax) too_long_ = true;
  if (too_long_) pending_.clear();
  return lines;
}

SoloRecord::SoloRecord(RunFolder folder) : folder_(std::move(folder)) {
  Attempt next{0};
  while (has(next)) ++next.value;
  follow(next);
}

bool SoloRecord::has(Attempt attempt) const {
  struct stat found {};
  return ::lstat(folder_.attempt(attempt).c_str(), &found) == 0;
}

/// Return whether the program whose attempt it is has ended: it holds a lock on the folder.
bool SoloRecord::is_free(Attempt attempt) const {
  const FileDescriptor folder(
      ::open(folder_.attempt(attempt).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  return folder.get() < 0 || ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

void SoloRecord::follow(Attempt attempt) {
  attempt_ = attempt;
  reports_.emplace(join_path(folder_.attempt(attempt), "metrics.jsonl"));
  sayings_.emplace(join_path(folder_.attempt(attempt), "solo.jsonl"));
}

std::optional<SoloRecord::News> SoloRecord::take() {
  News news;
  // First what is said: what it says of a report has been said behind that report. So it counts
  // once all reports that are there have been read.
  const bool over = has(Attempt{attempt_.value + 1}) && is_free(attempt_);
  for (std::string& line : sayings_->take()) said_.push_back(std::move(line));
  for (const std::string& line : reports_->take()) {
    auto report = parse_report_line(line);
    if (report && report->rank == 0 && report->attempt == attempt_.value)
      news.reports.push_back(std::move(*report));
  }
  if (!reports_->at_end() || !sayings_->at_end()) return news;
  for (const std::string& line : said_) take_saying(line, news);
  if (!std::exchange(said_, {}).empty()) return news;
  if (!over) return std::nullopt;
  follow(Attempt{attempt_.value + 1});
  news.began = attempt_;
  return news;
}

void SoloRecord::ask_to_stop() const {
  const std::string path = join_path(folder_.attempt(attempt_), "stop");
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

}  // namespace train
