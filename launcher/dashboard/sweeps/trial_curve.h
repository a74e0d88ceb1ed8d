// Follows what rank 0 of a trial has reported of the metric that its sweep compares, in a bounded
// number of points: if there are too many, neighbours are merged. Only new lines are read, and no
// more at once than the caller allows. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/search/search_spec.h"
#include "launcher/dashboard/folder_files.h"
#include "launcher/dashboard/line_reader.h"
#include "lib/observe/report_sink.h"

namespace train {

struct CurvePoint {
  double time = 0;   // of the first report that it stands for
  double value = 0;  // the mean of those that are finite
  std::uint32_t reports = 0;
};

class TrialCurve {
 public:
  static constexpr std::size_t kPointsMax = 256;

  explicit TrialCurve(const SearchSpec& search);

  /// Go on with the trial's next run, once the one before has been read to its end. `folder`: below
  /// the sweep's. `begun_at`: the time that its reports are counted on from, without a
  /// time_attribute.
  void add_part(std::string folder, double begun_at);
  std::size_t parts() const { return parts_.size(); }

  /// Read what is new, at most about `bytes_max` bytes; subtract what was read. Return whether
  /// there is more.
  bool update(const FolderFiles& sweep, std::uint64_t& bytes_max);

  const std::vector<CurvePoint>& points() const { return points_; }
  std::uint64_t reports() const { return reports_; }        // with the metric
  std::uint64_t non_finite() const { return non_finite_; }  // of these, NaN or infinite
  std::optional<double> time() const { return time_; }      // of the newest
  std::optional<double> value() const { return value_; }
  std::optional<double> best() const { return best_; }
  std::optional<double> best_time() const { return best_time_; }

 private:
  struct Part {
    std::string folder;
    double begun_at = 0;
    LineReader lines;
    std::map<std::uint64_t, std::uint64_t> before = {};  // by attempt: the reports before it
    int journal_reads = 0;
  };
  void add(const FolderFiles& sweep, Part& part, const ReportRecord& report);
  static std::uint64_t before(const FolderFiles& sweep, Part& part, std::uint64_t attempt);
  void add_point(double time, double value);
  void forget();

  std::string metric_, time_attribute_;
  SearchMode mode_;
  std::vector<Part> parts_;
  std::vector<CurvePoint> points_;
  std::uint64_t per_point_ = 1, reports_ = 0, non_finite_ = 0;
  std::optional<double> time_, value_, best_, best_time_;
};

}  // namespace train
