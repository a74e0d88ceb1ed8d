// Reads what rank 0 of a trial has reported, from its run's metrics.jsonl, as far as train-run says
// that it is on disk. Calls block.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/observe/report_sink.h"
#include "lib/storage/run_folder.h"

namespace train {

/// A report of the metric that the sweep compares.
struct MetricAtTime {
  double time = 0;
  double value = 0;
  std::uint64_t attempt = 0, report = 0;  // its number in the attempt
  bool operator==(const MetricAtTime&) const = default;
};

/// Return the number of reports before each attempt: those before the checkpoint that it began
/// from. A report that is repeated after a restart has the number that it had. `records`: of the
/// run's journal.
std::map<std::uint64_t, std::uint64_t> reports_before_attempts(
    const std::vector<boost::json::object>& records);

class TrialReports {
 public:
  /// `time_attribute`: empty: the number of the report, counted on from `begun_at`.
  TrialReports(RunFolder folder, std::string metric, std::string time_attribute,
               double begun_at = 0)
      : begun_at_(begun_at),
        folder_(std::move(folder)),
        metric_(std::move(metric)),
        time_attribute_(std::move(time_attribute)) {}

  /// Return the reports that have come since, up to this byte of the file. Reports without the
  /// metric, or without the time, are left out. A file that is not there has none.
  Result<std::vector<MetricAtTime>> read(std::uint64_t end);
  /// Return the attempt and the number of the newest report, with the metric or without.
  std::pair<std::uint64_t, std::uint64_t> newest() const { return newest_; }

 private:
  std::optional<MetricAtTime> taken(const ReportRecord& report);
  std::uint64_t before(std::uint64_t attempt);

  const double begun_at_;
  const RunFolder folder_;
  const std::string metric_, time_attribute_;
  FileDescriptor file_;
  std::uint64_t at_ = 0;
  std::pair<std::uint64_t, std::uint64_t> newest_{0, 0};
  std::string line_;  // the beginning of one
  std::map<std::uint64_t, std::uint64_t> before_;
};

}  // namespace train
