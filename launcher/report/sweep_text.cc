#include "launcher/report/sweep_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 5> kStates{"running", "finished", "stopped", "failed",
                                                  "invalid"};
constexpr std::size_t kCellColumnsMax = 60;

std::string number_cell(const std::optional<double>& number) {
  return number ? short_number(*number) : "-";
}

/// Return "val_acc 0.5 at epoch 4".
std::string value_text(const SweepTable& table, const std::optional<double>& value,
                       const std::optional<double>& time) {
  if (!value) return fmt::format("no {}", table.metric);
  std::string text = fmt::format("{} {}", table.metric, short_number(*value));
  if (time) text += fmt::format(" at {} {}", table.time, short_number(*time));
  return text;
}

std::string padded(std::string text, std::size_t columns) {
  const auto has = static_cast<std::size_t>(columns_of(text));
  return has < columns ? text + std::string(columns - has, ' ') : text;
}

}  // namespace

std::string short_number(double number) { return fmt::format("{:.6g}", number); }

std::string sweep_counts(const SweepTable& table) {
  std::string text = fmt::format("{} of {} trials", table.rows.size(), table.trials);
  const char* before = ": ";
  for (const std::string_view state : kStates) {
    const auto count = std::count_if(table.rows.begin(), table.rows.end(),
                                     [&](const SweepRow& row) { return row.state == state; });
    if (count == 0) continue;
    text += fmt::format("{}{} {}", before, count, state);
    before = ", ";
  }
  return text;
}

std::string sweep_best(const SweepTable& table) {
  if (!table.best) return "";
  const SweepRow& row = table.rows[static_cast<std::size_t>(*table.best)];
  return fmt::format("best: trial {}, {} {}{}{}", row.trial, table.metric,
                     short_number(row.best.value_or(0)), row.parameters.empty() ? "" : ": ",
                     row.parameters);
}

std::string sweep_table(const SweepTable& table, const std::vector<int>& best_first,
                        std::size_t rows_max, int columns) {
  std::vector<int> shown;
  for (const SweepRow& row : table.rows)
    if (row.state == "running" && shown.size() < rows_max) shown.push_back(row.trial);
  for (const int trial : best_first) {
    if (shown.size() >= rows_max) break;
    if (std::find(shown.begin(), shown.end(), trial) == shown.end()) shown.push_back(trial);
  }
  std::sort(shown.begin(), shown.end());
  std::vector<std::array<std::string, 6>> cells{
      {"trial", "state", table.time, table.metric, "best", "parameters"}};
  for (const int trial : shown) {
    const SweepRow& row = table.rows[static_cast<std::size_t>(trial)];
    const std::string mark = table.best == trial ? "*" : "";
    cells.push_back({fmt::format("{}{}", trial, mark), row.state, number_cell(row.time),
                     number_cell(row.value), number_cell(row.best), row.parameters});
  }
  std::array<std::size_t, 6> widths{};
  for (auto& row : cells)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      row[i] = cut_to_columns(terminal_safe(row[i]), kCellColumnsMax);
      widths[i] = std::max(widths[i], static_cast<std::size_t>(columns_of(row[i])));
    }
  std::string text;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) line += padded(row[i], widths[i] + 2);
    line += terminal_safe(row.back());
    text += (columns > 0 ? cut_to_columns(line, columns) : line) + '\n';
  }
  if (shown.size() < table.rows.size())
    text += fmt::format("... and {} more trials: trials.csv has all of them\n",
                        table.rows.size() - shown.size());
  return text;
}

std::string trial_line(const SweepTable& table, const SweepRow& row) {
  std::string line = fmt::format("trial {} ", row.trial);
  if (row.state == "running") return line + fmt::format("started: {}", row.parameters);
  line += fmt::format("{}: ", row.state);
  if (row.state == "failed" || row.state == "invalid") return line + row.cause;
  line += value_text(table, row.value, row.time);
  if (table.best == row.trial) line += ", the best so far";
  return line;
}

std::string DrawnLines::draw(const std::string& lasting, const std::vector<std::string>& lines,
                             int columns) {
  std::string bytes;
  if (drawn_ > 0) bytes += fmt::format("\x1b[{}A\x1b[J", drawn_);
  bytes += lasting;
  for (const std::string& line : lines) bytes += cut_to_columns(line, columns) + '\n';
  drawn_ = lines.size();
  return bytes;
}

}  // namespace train
