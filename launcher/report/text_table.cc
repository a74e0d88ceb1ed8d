#include "launcher/report/text_table.h"

#include <algorithm>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

std::string line_text(const TableCells& cells, std::size_t texts, const std::vector<int>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool last = i + 1 == cells.size();
    const int missing = last ? 0 : std::max(0, widths[i] - columns_of(cells[i]));
    const std::string blanks(static_cast<std::size_t>(missing), ' ');
    if (i > 0) line += "  ";
    line += i < texts ? cells[i] + blanks : blanks + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string table_text(const std::vector<TableCells>& lines, std::size_t texts) {
  std::vector<int> widths;
  for (const TableCells& cells : lines) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i + 1 < cells.size(); ++i)  // the last cell needs no width
      widths[i] = std::max(widths[i], columns_of(cells[i]));
  }
  std::string text;
  for (const TableCells& cells : lines) text += line_text(cells, texts, widths);
  return text;
}

}  // namespace train
