// The metrics of one rank over all its reports, in a bounded number of buckets: if there are too
// many, neighbours are merged. A bucket keeps the least and the largest value, so a spike of one
// report stays visible, and counts values that are no finite numbers. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/metrics.h"

namespace train {

/// What a metric was in the reports of a bucket. min, max and sum are those of the finite values.
struct MetricCell {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0, last = std::numeric_limits<double>::quiet_NaN();
  std::uint32_t count = 0, non_finite = 0;  // count: of reports with the metric

  void add(double value);
  /// Add those of later reports.
  void merge(const MetricCell& later);
  bool operator==(const MetricCell&) const = default;
};

/// The first report of a bucket.
struct BucketStart {
  std::uint64_t report = 0;  // its ordinal over all attempts, from 1
  std::int64_t wall_us = 0;
  std::optional<double> epoch = {};
  std::uint64_t offset = 0;  // of its line in the file
};

struct MetricInfo {
  enum class Kind { Number, Text, Bool } kind = Kind::Number;
  std::uint64_t reports = 0;
  MetricValue last = {};
  MetricCell all = {};
};

class MetricSeries {
 public:
  static constexpr std::size_t kBucketsMax = 2048, kBucketsMin = 256;
  static constexpr std::size_t kCellsMax = 128u << 10;  // of all keys; 48 bytes each
  static constexpr std::size_t kKeysMax = 512;          // later ones are left out
  static constexpr std::size_t kKeyBytesMax = 256;

  /// `per_bucket`: reports in a bucket at first.
  explicit MetricSeries(std::uint64_t per_bucket = 1, std::uint64_t first_report = 1)
      : per_bucket_(per_bucket), first_report_(first_report), reports_(first_report - 1) {}

  /// Add the rank's next report, whose line begins at `offset`.
  void add(const ReportRecord& report, std::uint64_t offset);

  std::uint64_t reports() const { return reports_; }  // the ordinal of the newest
  std::uint64_t per_bucket() const { return per_bucket_; }
  const std::vector<BucketStart>& starts() const { return starts_; }
  const std::map<std::string, MetricInfo>& keys() const { return keys_; }
  /// Return the key's cells: as many as there are starts, or fewer if the key is missing in the
  /// last ones. Nothing for a key without numbers.
  const std::vector<MetricCell>* cells(const std::string& key) const;
  /// Return the attempts and their first reports' ordinals.
  const std::vector<std::pair<std::uint32_t, std::uint64_t>>& attempts() const { return attempts_; }

 private:
  void add_value(const std::string& key, const MetricValue& value, std::size_t bucket);
  std::size_t buckets_max() const;
  void halve();

  std::uint64_t per_bucket_, first_report_, reports_;
  std::vector<BucketStart> starts_;
  std::map<std::string, MetricInfo> keys_;
  std::map<std::string, std::vector<MetricCell>> cells_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> attempts_;
};

/// A part of a series, ready to be shown: buckets of `per_bucket` reports from `from` to `to`.
struct SeriesPart {
  std::uint64_t from = 1, to = 0, per_bucket = 1;
  std::vector<BucketStart> starts = {};
  std::map<std::string, std::vector<MetricCell>> cells = {};  // each as long as `starts`
};

/// Return the keys' buckets that begin from `from` to `to`, merged until there are no more than
/// `points`.
SeriesPart series_part(const MetricSeries& series, const std::vector<std::string>& keys,
                       std::uint64_t from, std::uint64_t to, std::size_t points);

}  // namespace train
