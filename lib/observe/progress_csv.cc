#include "lib/observe/progress_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <unordered_set>

#include "lib/base/time.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

// The columns before those of metrics.
constexpr std::array<std::string_view, 4> kFixedNames = {"attempt", "report_seq", "time",
                                                         "checkpoint"};

std::string fixed_columns() { return fmt::format("{}", fmt::join(kFixedNames, ",")); }

// Return the text as UTF-8 without line breaks, for programs that read line by line. The exact text
// is in metrics.jsonl.
std::string in_one_line(std::string_view text) {
  std::string line = utf8_text(text);
  for (char& c : line)
    if (static_cast<std::uint8_t>(c) < 0x20 || c == 0x7F) c = ' ';
  return line;
}

// Return the name of a metric's column.
std::string column_name(std::string_view metric) {
  const bool is_fixed =
      std::find(kFixedNames.begin(), kFixedNames.end(), metric) != kFixedNames.end();
  return (is_fixed ? "metrics." : "") + in_one_line(metric);
}

// Append a text of one line.
void append_cell(std::string& out, std::string_view line) {
  const bool quoted = line.find_first_of(",\"") != std::string_view::npos;
  if (quoted) out += '"';
  for (const char c : line) {
    if (c == '"') out += '"';
    out += c;
  }
  if (quoted) out += '"';
}

void append_metric(std::string& out, const MetricValue& value) {
  std::array<char, 32> digits;
  const auto number = [&](auto what) {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), what).ptr;
    // If not finite: nan, inf or -inf, which pandas understands.
    out.append(digits.data(), end);
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return number(*integer);
  if (const auto* real = std::get_if<double>(&value)) return number(*real);
  if (const auto* flag = std::get_if<bool>(&value)) {
    out += *flag ? "true" : "false";
    return;
  }
  append_cell(out, in_one_line(std::get<std::string>(value)));
}

std::vector<std::string> read_cells(std::string_view row) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '"' && quoted && i + 1 < row.size() && row[i + 1] == '"') {
      cells.back() += row[i++];
    } else if (row[i] == '"') {
      quoted = !quoted;
    } else if (row[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += row[i];
    }
  }
  return cells;
}

}  // namespace

Result<ProgressCsv> ProgressCsv::open(std::string path, std::size_t rewritten_bytes_max) {
  ProgressCsv csv;
  csv.rewritten_bytes_left_ = rewritten_bytes_max;
  TRY(csv.file_, AppendFile::open(std::move(path)));
  TRY_VOID(csv.recover());
  return csv;
}

Result<Unit> ProgressCsv::recover() {
  TRY(const std::string content, read_file_or_empty(file_.path()));
  const auto last_newline = content.rfind('\n');
  const std::size_t whole = last_newline == std::string::npos ? 0 : last_newline + 1;
  if (whole < content.size()) TRY_VOID(file_.truncate(whole));
  if (whole == 0) {
    file_.buffer() += header();
    return Unit{};
  }
  const std::string_view first_line(content.data(), content.find('\n'));
  if (!first_line.starts_with(fixed_columns())) {
    return Error{Errc::Corrupt,
                 fmt::format("{} does not begin with \"{}\"", file_.path(), fixed_columns()),
                 "move it away; metrics.jsonl holds the same and more"};
  }
  const auto cells = read_cells(first_line);
  for (std::size_t i = kFixedNames.size(); i < cells.size(); ++i) {
    by_name_.emplace(cells[i], columns_.size());
    columns_.push_back({.name = cells[i]});
  }
  const auto before_last = content.rfind('\n', last_newline - 1);
  if (before_last == std::string::npos) return Unit{};  // a header alone
  const auto row =
      read_cells(std::string_view(content).substr(before_last + 1, last_newline - before_last - 1));
  if (row.size() < 2) return Unit{};
  std::from_chars(row[0].data(), row[0].data() + row[0].size(), last_.first);
  std::from_chars(row[1].data(), row[1].data() + row[1].size(), last_.second);
  return Unit{};
}

/// Continue in the file that the path leads to now. Rows that the old file did not take are lost:
/// the new one has other columns.
Result<Unit> ProgressCsv::reopen() {
  TRY(ProgressCsv there, open(file_.path(), rewritten_bytes_left_));
  there.last_ = std::max(there.last_, last_);
  there.left_out_ = left_out_;
  *this = std::move(there);
  return Unit{};
}

Result<Unit> ProgressCsv::on_reports(std::span<const ReportRecord> reports) {
  if (!file_.is_at_path()) TRY_VOID(reopen());
  const auto is_new = [this](const ReportRecord& report) {
    return report.rank == 0 && std::pair(report.attempt, report.report_seq) > last_;
  };
  TRY(const std::size_t columns_max, columns_in_reach());
  // No column is free, nor may any be added.
  const bool full = columns_.size() >= columns_max && by_metric_.size() == columns_.size();
  std::vector<Column> added;
  std::unordered_set<std::string_view> left_out;
  for (const ReportRecord& report : reports) {
    if (!is_new(report)) continue;
    for (const auto& [metric, value] : report.metrics)
      if (!by_metric_.contains(metric) && (full || !give_column(metric, columns_max, added)))
        left_out.insert(metric);
  }
  left_out_ = std::max(left_out_, left_out.size());
  if (!added.empty()) TRY_VOID(add_columns(added));
  if (file_.buffer().size() >= kBufferBytesMax) TRY_VOID(file_.flush());
  for (const ReportRecord& report : reports) {
    if (!is_new(report)) continue;
    last_ = {report.attempt, report.report_seq};
    append_row(report);
  }
  return Unit{};
}

/// Return how many columns the table may have: once the file is too large to be rewritten for
/// another column, only those that it has.
Result<std::size_t> ProgressCsv::columns_in_reach() {
  std::error_code ec;
  const std::uintmax_t bytes = std::filesystem::file_size(file_.path(), ec);
  if (ec) return Error{Errc::Io, fmt::format("{}: {}", file_.path(), ec.message())};
  return bytes + file_.buffer().size() <= rewritten_bytes_left_ ? kColumnsMax : columns_.size();
}

/// Find a column for a metric that has none, or add one. Return false if there is none for it.
bool ProgressCsv::give_column(const std::string& metric, std::size_t columns_max,
                              std::vector<Column>& added) {
  std::string name = column_name(metric);
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    Column& column = columns_[found->second];
    if (column.metric) return false;  // another metric's
    column.metric = metric;
    by_metric_.emplace(metric, found->second);
    return true;
  }
  const auto same = std::find_if(added.begin(), added.end(),
                                 [&](const Column& column) { return column.name == name; });
  if (same != added.end()) return same->metric == metric;
  if (columns_.size() + added.size() >= columns_max) return false;
  added.push_back({std::move(name), metric});
  return true;
}

Result<Unit> ProgressCsv::add_columns(const std::vector<Column>& added) {
  TRY_VOID(file_.flush());
  TRY(const std::string old, read_file_or_empty(file_.path()));
  ProgressCsv longer;
  longer.columns_ = columns_;
  longer.columns_.insert(longer.columns_.end(), added.begin(), added.end());
  std::string content = longer.header();
  const std::string empty_cells(added.size(), ',');
  const auto header_end = old.find('\n');
  std::size_t begin = header_end == std::string::npos ? old.size() : header_end + 1;
  for (auto end = old.find('\n', begin); end != std::string::npos; end = old.find('\n', begin)) {
    content.append(old, begin, end - begin);
    content += empty_cells;
    content += '\n';
    begin = end + 1;
  }
  const std::string path = file_.path();
  TRY_VOID(replace_file(path, content));
  rewritten_bytes_left_ -= std::min(rewritten_bytes_left_, content.size());
  TRY(file_, AppendFile::open(path));
  columns_ = std::move(longer.columns_);
  for (std::size_t i = columns_.size() - added.size(); i < columns_.size(); ++i) {
    by_metric_.emplace(*columns_[i].metric, i);
    by_name_.emplace(columns_[i].name, i);
  }
  return Unit{};
}

std::string ProgressCsv::header() const {
  std::string line = fixed_columns();
  for (const Column& column : columns_) {
    line += ',';
    append_cell(line, column.name);
  }
  line += '\n';
  return line;
}

std::vector<std::string> ProgressCsv::warnings() const {
  if (left_out_ == 0) return {};
  return {fmt::format("{} has no column for {}, which metrics.jsonl holds", file_.path(),
                      left_out_ == 1 ? "a metric" : fmt::format("{} metrics", left_out_))};
}

void ProgressCsv::append_row(const ReportRecord& report) {
  const std::chrono::system_clock::time_point when{std::chrono::microseconds(report.wall_us)};
  std::string& out = file_.buffer();
  out += fmt::format("{},{},{},{}", report.attempt, report.report_seq, format_utc(when),
                     report.has_checkpoint);
  std::vector<const MetricValue*> cells(columns_.size(), nullptr);
  for (const auto& [name, value] : report.metrics) {
    const auto found = by_metric_.find(name);
    if (found != by_metric_.end()) cells[found->second] = &value;
  }
  for (const MetricValue* cell : cells) {
    out += ',';
    if (cell != nullptr) append_metric(out, *cell);
  }
  out += '\n';
}

}  // namespace train
