// progress.csv holds rank 0's reports as a table, for pandas and spreadsheets. Its columns are
// attempt, report_seq, time and checkpoint, then the metrics in the order in which they first
// appeared. For a new metric, the file is rewritten with another column and replaced by a rename,
// so that every row has every column at any moment. If a restart repeats steps, both rows stay: of
// two rows for one step, the one with the higher attempt counts.
//
// No two columns have the same name. A metric with the name of one of the first four columns gets a
// prefix: metrics.time. Of two metrics whose names differ only in characters that the table cannot
// hold, the first one gets the column.
//
// If someone removes or replaces the file, the next rows go to the file that is there, or to a new
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/observe/append_file.h"
#include "lib/observe/report_sink.h"

namespace train {

class ProgressCsv final : public ReportSink {
 public:
  /// Since each new column rewrites the file, there are limits on the columns and on the total
  /// bytes rewritten. Further metrics are only in metrics.jsonl.
  static constexpr std::size_t kColumnsMax = 512;
  static constexpr std::size_t kRewrittenBytesMax = 512u << 20;
  static constexpr std::size_t kBufferBytesMax = 4u << 20;

  /// Open for appending, and create the file if missing. Cuts off a torn last row.
  static Result<ProgressCsv> open(std::string path,
                                  std::size_t rewritten_bytes_max = kRewrittenBytesMax);

  Result<Unit> on_reports(std::span<const ReportRecord> reports) override;
  Result<Unit> flush() override { return file_.flush(); }
  Result<Unit> sync() override { return file_.sync(); }
  std::vector<std::string> warnings() const override;

  /// Return the number of metrics without a column.
  std::size_t columns_left_out() const { return left_out_; }
  /// Return the last row's attempt and report_seq. Reports up to these are dropped if they arrive
  /// again.
  std::pair<std::uint32_t, std::uint64_t> last_attempt_and_report_seq() const { return last_; }

 private:
  struct Column {
    std::string name = {};
    std::optional<std::string> metric = {};  // none: of an earlier launcher, and not reported since
  };
  Result<Unit> recover();
  Result<Unit> reopen();
  Result<std::size_t> columns_in_reach();
  bool give_column(const std::string& metric, std::size_t columns_max, std::vector<Column>& added);
  Result<Unit> add_columns(const std::vector<Column>& added);
  std::string header() const;
  void append_row(const ReportRecord& report);

  AppendFile file_;
  std::vector<Column> columns_;                                       // of metrics
  std::unordered_map<std::string, std::size_t> by_metric_, by_name_;  // places in columns_
  std::pair<std::uint32_t, std::uint64_t> last_ = {0, 0};             // (attempt, report_seq)
  std::size_t left_out_ = 0;
  std::size_t rewritten_bytes_left_ = kRewrittenBytesMax;
};

}  // namespace train
