// What is known of the values of a column, in one pass: the numbers that preprocessors are fitted
// with. Summaries of parts of a column can be merged; the same parts, merged in the same order,
// give the same bits, whoever summed them up.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "lib/base/result.h"

namespace train::data {

/// A value that is one of several: of whole numbers and bools, or of text.
using Category = std::variant<std::int64_t, std::string>;

/// Return the text that messages have of it.
std::string to_string(const Category& category);

/// Distinct values of a column that are counted.
inline constexpr std::size_t kCountedMax = 100'000;
inline constexpr std::size_t kCountedBytesMax = 2u << 20;  // of text

/// Mean and variance are summed up as B. P. Welford does (Technometrics 4, 1962), and merged as
/// Chan, Golub and LeVeque do (STAN-CS-79-773).
struct NumberSummary {
  std::int64_t count = 0;
  double mean = 0;
  double squares = 0;  // sum of the squared distances from the mean
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void add(double value);
  void merge(const NumberSummary& other);
  /// Return the same of (value - offset) / scale, with scale > 0.
  NumberSummary scaled(double offset, double scale) const;
  bool operator==(const NumberSummary&) const = default;
};

struct ColumnSummary {
  std::int64_t missing = 0;                      // null or NaN
  NumberSummary numbers = {};                    // of columns of numbers
  std::map<Category, std::int64_t> counts = {};  // if they are counted: values that are not missing

  Result<Unit> merge(const ColumnSummary& other);
  bool operator==(const ColumnSummary&) const = default;
};

/// Return whether the values are numbers, or true and false.
bool is_of_numbers(const arrow::DataType& type);
/// Return whether values can be counted: whole numbers, true and false, text.
bool is_of_categories(const arrow::DataType& type);

/// Add the values of a column, of a type that is of numbers, or whose values are counted. An error
/// if more than kCountedMax values differ.
Result<Unit> add_values(const arrow::Array& values, bool counted, ColumnSummary& summary);

/// Call `visit(row, category)` for each value that is not missing. `Visit` returns Result<Unit>.
Result<Unit> visit_categories(
    const arrow::Array& values,
    const std::function<Result<Unit>(std::int64_t row, Category value)>& visit);

/// Return the values as float64, with NaN for what is missing.
Result<std::shared_ptr<arrow::Array>> numbers_of(const arrow::Array& values);

}  // namespace train::data
