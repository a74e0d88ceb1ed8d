#include "launcher/cluster/sweep/trial_reports.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "lib/observe/metrics_log.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::size_t kReadBytes = 256u << 10;
constexpr std::size_t kLineBytesMax = 64u << 20;

std::optional<std::uint64_t> number_in(const boost::json::object& event, std::string_view name) {
  const auto* value = event.if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  boost::system::error_code ec;
  const auto number = value->to_number<std::uint64_t>(ec);
  return ec ? std::nullopt : std::optional(number);
}

}  // namespace

std::map<std::uint64_t, std::uint64_t> reports_before_attempts(
    const std::vector<boost::json::object>& records) {
  std::map<std::uint64_t, std::uint64_t> before, of_checkpoint;
  for (const boost::json::object& record : records) {
    const auto* event = record.if_contains("event");
    const auto attempt = number_in(record, "attempt");
    if (event == nullptr || !attempt) continue;
    if (*event == "attempt_started") {
      const auto* restore = record.if_contains("restore");
      const auto number = restore != nullptr && restore->is_object()
                              ? number_in(restore->as_object(), "number")
                              : std::nullopt;
      const auto from = number ? of_checkpoint.find(*number) : of_checkpoint.end();
      before[*attempt] = from == of_checkpoint.end() ? 0 : from->second;
    } else if (*event == "checkpoint_committed") {
      const auto number = number_in(record, "checkpoint"), report = number_in(record, "report");
      if (number && report) of_checkpoint[*number] = before[*attempt] + *report;
    }
  }
  return before;
}

std::uint64_t TrialReports::before(std::uint64_t attempt) {
  const auto known = before_.find(attempt);
  if (known != before_.end()) return known->second;
  PosixFileSystem files;
  std::vector<boost::json::object> records;
  if (const auto replay = read_journal(files, folder_.journal()))
    for (const JournalRecord& record : replay->records) records.push_back(record.event);
  before_ = reports_before_attempts(records);
  return before_[attempt];
}

std::optional<MetricAtTime> TrialReports::taken(const ReportRecord& report) {
  const auto value = number_of(report.metrics, metric_);
  if (!value) return std::nullopt;
  const auto time = time_attribute_.empty()
                        ? std::optional(begun_at_ + static_cast<double>(before(report.attempt) +
                                                                        report.report_seq))
                        : number_of(report.metrics, time_attribute_);
  if (!time) return std::nullopt;
  return MetricAtTime{*time, *value, report.attempt, report.report_seq};
}

Result<std::vector<MetricAtTime>> TrialReports::read(std::uint64_t end) {
  std::vector<MetricAtTime> reports;
  if (file_.get() < 0) {
    file_.reset(::open(folder_.metrics().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file_.get() < 0 && errno == ENOENT) return reports;
    if (file_.get() < 0) return system_error(errno, "reading " + folder_.metrics());
  }
  std::string buffer(kReadBytes, '\0');
  while (at_ < end) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), end - at_);
    const ssize_t count = ::pread(file_.get(), buffer.data(), wanted, static_cast<off_t>(at_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "reading " + folder_.metrics());
    if (count == 0) break;  // less than we were told
    at_ += static_cast<std::uint64_t>(count);
    std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t line_end = rest.find('\n'); line_end != std::string_view::npos;
         line_end = rest.find('\n')) {
      line_ += rest.substr(0, line_end);
      rest.remove_prefix(line_end + 1);
      const auto front = parse_report_front(line_);
      if (front && front->rank == 0) {
        newest_ = {front->attempt, front->last_report_seq};
        if (const auto report = parse_report_line(line_))
          if (const auto metric = taken(*report)) reports.push_back(*metric);
      }
      line_.clear();
    }
    line_ += rest;
    if (line_.size() > kLineBytesMax)
      return Error{Errc::Corrupt, folder_.metrics() + " has a line that is no report"};
  }
  return reports;
}

}  // namespace train
