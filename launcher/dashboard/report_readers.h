// Follow a run's report log, metrics.jsonl: the metrics of one rank, and who has reported how much.
// Only new lines are read. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/dashboard/folder_files.h"
#include "launcher/dashboard/line_reader.h"
#include "launcher/dashboard/metric_series.h"

namespace train {

inline constexpr std::size_t kReportLineBytesMax = 1u << 20;  // a report has at most 64 KiB

class RankSeriesReader {
 public:
  RankSeriesReader(const FolderFiles& files, std::int32_t rank);

  /// Read what is new.
  void update();
  const MetricSeries& series() const { return series_; }
  /// Return the part of the series. Read the file again where the series is too coarse for it and
  /// that is not too much to read.
  SeriesPart part(const std::vector<std::string>& keys, std::uint64_t from, std::uint64_t to,
                  std::size_t points) const;

 private:
  static constexpr std::uint64_t kReadAgainBytesMax = 64u << 20;
  MetricSeries read_again(const BucketStart& start, std::uint64_t to) const;

  const FolderFiles& files_;
  const std::string prefix_;  // of the rank's lines
  LineReader lines_{"metrics.jsonl", kReportLineBytesMax};
  MetricSeries series_;
};

/// The newest report of a rank.
struct RankReports {
  std::uint32_t attempt = 0;
  std::uint64_t reports = 0;  // in that attempt
  std::uint64_t offset = 0;   // of the newest one's line
};

class RankReportsReader {
 public:
  static constexpr std::size_t kRanksMax = 65'536;

  explicit RankReportsReader(const FolderFiles& files) : files_(files) {}

  void update();
  const std::map<std::int32_t, RankReports>& ranks() const { return ranks_; }
  /// Return the rank's newest report, read again from the file.
  std::optional<ReportRecord> newest(std::int32_t rank) const;

 private:
  const FolderFiles& files_;
  LineReader lines_{"metrics.jsonl", kReportLineBytesMax};
  std::map<std::int32_t, RankReports> ranks_;
};

}  // namespace train
