// The `data` of a ReportBatch is a sequence of reports, each a MessagePack array [wall_us,
// has_checkpoint, {name: value}]. Their report_seqs are first_report_seq, first_report_seq + 1, …
// The worker writes it, and the launcher reads it; nothing in between looks inside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace train {

struct ReportBatch;

inline constexpr std::size_t kReportBytesMax = 64u << 10;  // of one report
inline constexpr std::size_t kReportMetricsMax = 4096;

/// Append one report to a batch's data.
void append_report(std::int64_t wall_us, bool has_checkpoint, const Metrics& metrics,
                   std::string& data);

/// Read a whole batch, in order. Return an Error if append_report did not write the data, or the
/// count differs.
Result<std::vector<ReportRecord>> read_reports(const ReportBatch& batch, std::uint32_t attempt);

}  // namespace train
