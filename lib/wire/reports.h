// The `data` of a ReportBatch is a sequence of reports, each a MessagePack array [wall_us,
// has_checkpoint, {name: value}], with a fourth element if the report has histograms: {name: [min,
// max, nans, infinities, [count of each bin]]}. Further elements are passed over. Their
// report_seqs are first_report_seq, first_report_seq + 1, … The worker writes it, and the launcher
// reads it; nothing in between looks inside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace train {

struct ReportBatch;

// Of one report: its metrics, and its histograms.
inline constexpr std::size_t kReportBytesMax = 64u << 10;
inline constexpr std::size_t kReportMetricsMax = 4096;
inline constexpr std::size_t kReportHistogramBytesMax = 32u << 10;
inline constexpr std::size_t kReportHistogramsMax = 64;
inline constexpr std::size_t kHistogramBinsMax = 256;
inline constexpr std::size_t kHistogramNameBytesMax = 256;

/// Append one report to a batch's data.
void append_report(std::int64_t wall_us, bool has_checkpoint, const Metrics& metrics,
                   std::string& data);

/// Append a histogram to `packed`, for add_histograms.
void append_histogram(std::string_view name, const Histogram& histogram, std::string& packed);
/// Add `count` histograms to a report that append_report has written to the empty `report`.
void add_histograms(std::size_t count, std::string_view packed, std::string& report);

/// Read a whole batch, in order. Return an Error if append_report did not write the data, or the
/// count differs.
Result<std::vector<ReportRecord>> read_reports(const ReportBatch& batch, std::uint32_t attempt);

}  // namespace train
