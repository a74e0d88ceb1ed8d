#include "lib/data/transform/column_summary.h"

#include <arrow/array.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/compute/cast.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/visit_array_inline.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

constexpr std::string_view kReading = "cannot read its values";

Error too_many() {
  return Error{Errc::ResourceExhausted,
               fmt::format("more than {} of its values differ, or they have more than {} bytes of "
                           "text",
                           kCountedMax, kCountedBytesMax),
               "give a column of categories, or one_hot_encoder its max_categories in a column "
               "that has fewer"};
}

Result<Unit> check_size(const std::map<Category, std::int64_t>& counts) {
  if (counts.size() > kCountedMax) return too_many();
  std::size_t bytes = 0;
  for (const auto& [category, count] : counts) {
    if (const auto* text = std::get_if<std::string>(&category)) bytes += text->size();
  }
  return bytes > kCountedBytesMax ? Result<Unit>(too_many()) : Unit{};
}

Result<std::shared_ptr<arrow::Array>> cast(const arrow::Array& values,
                                           const std::shared_ptr<arrow::DataType>& type) {
  ARROW_TRY(auto same, kReading,
            arrow::compute::Cast(values, type, arrow::compute::CastOptions::Unsafe()));
  return same;
}

}  // namespace

std::string to_string(const Category& category) {
  if (const auto* text = std::get_if<std::string>(&category)) return "'" + *text + "'";
  return std::to_string(std::get<std::int64_t>(category));
}

void NumberSummary::add(double value) {
  ++count;
  const double from_mean = value - mean;
  mean += from_mean / static_cast<double>(count);
  squares += from_mean * (value - mean);
  min = std::min(min, value);
  max = std::max(max, value);
}

void NumberSummary::merge(const NumberSummary& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const auto here = static_cast<double>(count), there = static_cast<double>(other.count);
  const double between = other.mean - mean;
  mean += between * (there / (here + there));
  squares += other.squares + between * between * (here * there / (here + there));
  count += other.count;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

NumberSummary NumberSummary::scaled(double offset, double scale) const {
  if (count == 0) return *this;
  return {.count = count,
          .mean = (mean - offset) / scale,
          .squares = squares / (scale * scale),
          .min = (min - offset) / scale,
          .max = (max - offset) / scale};
}

Result<Unit> ColumnSummary::merge(const ColumnSummary& other) {
  missing += other.missing;
  numbers.merge(other.numbers);
  for (const auto& [category, count] : other.counts) counts[category] += count;
  return check_size(counts);
}

bool is_of_numbers(const arrow::DataType& type) {
  return arrow::is_integer(type.id()) || arrow::is_floating(type.id()) ||
         type.id() == arrow::Type::BOOL;
}

bool is_of_categories(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY)
    return is_of_categories(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return arrow::is_integer(type.id()) || type.id() == arrow::Type::BOOL ||
         type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

Result<std::shared_ptr<arrow::Array>> numbers_of(const arrow::Array& values) {
  TRY(const auto doubles, cast(values, arrow::float64()));
  if (doubles->null_count() == 0) return doubles;
  const auto& given = static_cast<const arrow::DoubleArray&>(*doubles);
  arrow::DoubleBuilder builder;
  if (const auto status = builder.Reserve(given.length()); !status.ok())
    return error_from(status, kReading);
  for (std::int64_t row = 0; row < given.length(); ++row)
    builder.UnsafeAppend(given.IsNull(row) ? std::nan("") : given.Value(row));
  ARROW_TRY(auto filled, kReading, builder.Finish());
  return filled;
}

Result<Unit> visit_categories(
    const arrow::Array& values,
    const std::function<Result<Unit>(std::int64_t row, Category value)>& visit) {
  const arrow::DataType* type = values.type().get();
  if (type->id() == arrow::Type::DICTIONARY)
    type = static_cast<const arrow::DictionaryType*>(type)->value_type().get();
  const bool text = !is_of_numbers(*type);
  TRY(const auto plain, cast(values, text ? arrow::large_utf8() : arrow::int64()));
  for (std::int64_t row = 0; row < plain->length(); ++row) {
    if (plain->IsNull(row)) continue;
    Category value =
        text ? Category(static_cast<const arrow::LargeStringArray&>(*plain).GetString(row))
             : Category(static_cast<const arrow::Int64Array&>(*plain).Value(row));
    TRY_VOID(visit(row, std::move(value)));
  }
  return Unit{};
}

Result<Unit> add_values(const arrow::Array& values, bool counted, ColumnSummary& summary) {
  std::int64_t there = 0;
  if (is_of_numbers(*values.type())) {
    TRY(const auto numbers, numbers_of(values));
    const auto& doubles = static_cast<const arrow::DoubleArray&>(*numbers);
    for (std::int64_t row = 0; row < doubles.length(); ++row) {
      if (std::isnan(doubles.Value(row))) continue;
      ++there;
      summary.numbers.add(doubles.Value(row));
    }
  } else {
    there = values.length() - values.null_count();
  }
  summary.missing += values.length() - there;
  if (!counted) return Unit{};
  TRY_VOID(visit_categories(values, [&](std::int64_t, Category value) -> Result<Unit> {
    ++summary.counts[std::move(value)];
    if (summary.counts.size() > kCountedMax) return too_many();
    return Unit{};
  }));
  return check_size(summary.counts);
}

}  // namespace train::data
