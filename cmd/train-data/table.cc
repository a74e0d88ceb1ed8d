#include "cmd/train-data/table.h"

#include <algorithm>

#include "lib/base/terminal_text.h"

namespace train {

std::string table_text(const Table& table, const std::string& indent) {
  std::vector<std::vector<std::string>> rows{table.head};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  std::vector<int> widths(table.head.size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = terminal_safe(row[i]);
      widths[i] = std::max(widths[i], columns_of(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(static_cast<std::size_t>(widths[i] - columns_of(row[i])), ' ');
      const bool right = i < table.right.size() && table.right[i];
      line += (i > 0 ? "  " : "") + (right ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace train
