// Tables for the terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace train {

/// A line of a table. One with fewer cells than others ends with a text of any length.
using TableCells = std::vector<std::string>;

/// Return the lines with equally wide columns, two blanks apart. The first `texts` cells of a line
/// and its last one are flush left, the others, which are numbers, flush right.
std::string table_text(const std::vector<TableCells>& lines, std::size_t texts = 2);

}  // namespace train
