// metrics.jsonl, the report log, has one line per rank and report. A report is acknowledged to its
// worker only after sync(), so reports may arrive again after a restart of the launcher. The file
// itself shows which reports it holds (lib/base/report_line.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  /// How many bytes to buffer while the disk accepts nothing. Beyond that, on_reports fails, and
  /// the reports stay with the supervisors.
  static constexpr std::size_t kBufferBytesMax = 16u << 20;

  /// Open for appending, and create the file if missing. Cuts off a torn end (a line without a
  /// newline, or with zeros left by a power cut), which was never acknowledged. Corrupt if any
  /// other line is not one of ours.
  static Result<MetricsLog> open(std::string path);

  Result<Unit> on_reports(std::span<const ReportRecord> reports) override;
  Result<Unit> flush() override { return file_.flush(); }
  Result<Unit> sync() override { return file_.sync(); }
  /// Return how many bytes the file has. After sync() they are whole lines, and on disk.
  Result<std::uint64_t> size() const { return file_.size(); }

  /// Return the rank's last report_seq of the attempt in the log, or 0 if there is none.
  std::uint64_t last_report_seq(std::uint32_t attempt, std::int32_t rank) const;
  /// Return the last report of each rank in each attempt, in order. A launcher that attaches again
  /// tells the supervisors.
  std::vector<HeldReports> held() const;
  /// Return how many bytes open() cut off.
  std::uint64_t torn_bytes() const { return torn_bytes_; }

 private:
  Result<Unit> recover();
  std::string_view time_text(std::int64_t wall_us);

  AppendFile file_;
  std::unordered_map<std::uint64_t, std::uint64_t> last_;  // (attempt, rank) → report_seq
  std::int64_t second_ = -1;                               // the second that time_text_ shows
  std::string time_text_;
  std::uint64_t torn_bytes_ = 0;
};

/// Parse one line of a report log, without its newline. A null metric is read as NaN. Nothing if it
/// is no such line.
std::optional<ReportRecord> parse_report_line(std::string_view line);
/// Parse only the front of the line: whose report it is. This is 10 times faster.
std::optional<HeldReports> parse_report_front(std::string_view line);

/// Read a report log from its beginning, even while the run writes it; leaves out a torn last line.
/// `each` receives every report, in the file's order, and returns whether to continue. A null
/// metric is read as NaN. A missing file has no reports.
Result<Unit> read_metrics_log(const std::string& path,
                              const std::function<bool(ReportRecord&&)>& each);

}  // namespace train
