// metrics.jsonl, the report log: a line per rank and report. A report is acknowledged to its worker
// after sync(), so after a restart of the launcher reports may come again: this file itself says
// which it holds.
//
//   {"rank":0,"attempt":0,"report_seq":1,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"loss":0.5}}
//
// NaN and infinities are null (JSON has none); what steers a terminal is escaped.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/observe/append_file.h"
#include "lib/observe/report_sink.h"

namespace train {

/// The last report of one rank in one attempt that the log holds.
struct HeldReports {
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::uint64_t last_report_seq = 0;
  bool operator==(const HeldReports&) const = default;
};

class MetricsLog final : public ReportSink {
 public:
  /// While the disk takes nothing, this much is kept; then on_reports fails, and the reports stay
  /// with the supervisors.
  static constexpr std::size_t kBufferBytesMax = 16u << 20;

  /// Open for appending, made if missing. A torn end (no newline, or zeros that a power cut left)
  /// is cut off: it was never acknowledged. An Error where a line in the middle is not one of ours.
  static Result<MetricsLog> open(std::string path);

  Result<Unit> on_reports(std::span<const ReportRecord> reports) override;
  Result<Unit> flush() override { return file_.flush(); }
  Result<Unit> sync() override { return file_.sync(); }

  /// 0: it holds none of them.
  std::uint64_t last_report_seq(std::uint32_t attempt, std::int32_t rank) const;
  /// By attempt and rank; what a launcher tells the supervisors that it attaches to again.
  std::vector<HeldReports> held() const;
  /// Bytes that open() cut off.
  std::uint64_t torn_bytes() const { return torn_bytes_; }

 private:
  Result<Unit> recover();
  void append_line(const ReportRecord& report);
  void append_time(std::int64_t wall_us);

  AppendFile file_;
  std::unordered_map<std::uint64_t, std::uint64_t> last_;  // (attempt, rank) → report_seq
  std::int64_t second_ = -1;                               // whose text second_text_ is
  std::string second_text_;
  std::uint64_t torn_bytes_ = 0;
};

/// Read a report log from its beginning (of a running run too: a torn last line is left out).
/// `each` gets every report, in the file's order, and says whether to go on. A null metric reads as
/// NaN. No file: no reports.
Result<Unit> read_metrics_log(const std::string& path,
                              const std::function<bool(ReportRecord&&)>& each);

}  // namespace train
