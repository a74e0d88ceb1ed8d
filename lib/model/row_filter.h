// The language of a dataset's `filter`, a condition on the columns of a row:
//
//   label < 10 and split == 'train' and not (city in ['Bonn', 'Ulm'] or "unit price" is null)
//
// Operands are columns (a name, or any text in double quotes), numbers, texts in single quotes
// (a quote in one is doubled), true and false. Comparisons are == (or =), != (or <>), <, <=, >, >=,
// in [...], not in [...], is null, is not null. As in SQL, `not` binds closer than `and`, `and`
// closer than `or`, the words may have capitals, and a comparison with null is neither true nor
// false: a row stays only if its condition is true. The launcher checks a filter before any worker
// starts, and lib/data carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct RowFilter {
  enum class Kind { Column, Literal, Compare, In, IsNull, Not, And, Or };
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  Kind kind = Kind::Literal;
  std::string name = {};  // Column: its name; Compare: "==", "!=", "<", "<=", ">" or ">="
  Value value = false;    // Literal
  std::vector<RowFilter> parts = {};  // what it is about; In: an operand, and then literals
  bool operator==(const RowFilter&) const = default;
};

inline constexpr std::size_t kFilterBytesMax = 64u << 10;
inline constexpr int kFilterTermsMax = 1000;  // comparisons: who evaluates them nests them
inline constexpr int kFilterDepthMax = 50;    // of brackets and `not`

/// Parse a filter. The error's message continues "the filter …", and tells the place.
Result<RowFilter> parse_row_filter(std::string_view text);

/// Return the names of the columns that the filter is about, each once, in the order of the text.
std::vector<std::string> columns_of(const RowFilter& filter);

}  // namespace train
