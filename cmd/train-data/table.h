// A table of texts, whose columns are aligned.
#pragma once

#include <string>
#include <vector>

namespace train {

struct Table {
  std::vector<std::string> head;
  std::vector<bool> right = {};  // of each column: aligned to the right
  std::vector<std::vector<std::string>> rows = {};
};

/// Return the table's lines, each of which begins with `indent`. Its texts are made safe for a
/// terminal.
std::string table_text(const Table& table, const std::string& indent);

}  // namespace train
