// metrics.jsonl, the report log, has one line per rank and report. A report is acknowledged to its
// worker after sync(), so reports may come again after a restart of the launcher. The file itself
// says which it holds.
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
  /// The bytes kept while the disk accepts nothing. Beyond that on_reports fails, and the reports
  /// stay with the supervisors.
  static constexpr std::size_t kBufferBytesMax = 16u << 20;

  /// Open for appending, and make the file if missing. A torn end (no newline, or zeros that a
  /// power cut left) is cut off: it was never acknowledged. Returns an Error if a line in the
  /// middle is not one of ours.
  static Result<MetricsLog> open(std::string path);

  Result<Unit> on_reports(std::span<const ReportRecord> reports) override;
  Result<Unit> flush() override { return file_.flush(); }
  Result<Unit> sync() override { return file_.sync(); }

  /// Return the rank's last report_seq in the attempt that the log holds; 0: it holds none.
  std::uint64_t last_report_seq(std::uint32_t attempt, std::int32_t rank) const;
  /// Return the last reports, by attempt and rank. A launcher tells them to the supervisors that it
  /// attaches to again.
  std::vector<HeldReports> held() const;
  /// Return how many bytes open() cut off.
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

/// Read a report log from its beginning, even while the run writes it: a torn last line is left
/// out. `each` gets every report, in the file's order, and returns whether to go on. A null metric
/// reads as NaN. A missing file has no reports.
Result<Unit> read_metrics_log(const std::string& path,
                              const std::function<bool(ReportRecord&&)>& each);

}  // namespace train
