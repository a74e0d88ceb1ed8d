#include "lib/data/transform/preprocessors.h"

#include <arrow/array.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/cast.h>
#include <arrow/datum.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/transform/tensor_column.h"

namespace train::data {
namespace {

using Column = std::shared_ptr<arrow::Array>;
using Rows = std::shared_ptr<arrow::RecordBatch>;
using Numbers = std::vector<double>;

constexpr std::string_view kNoMemory = "no memory for the rows";

/// Return `count` values of type `T`, filled by `fill(values)`.
template <class T, class Fill>
Result<Column> filled(std::int64_t count, const std::vector<std::int64_t>& shape, Fill&& fill) {
  ARROW_TRY(std::shared_ptr<arrow::Buffer> bytes, kNoMemory,
            arrow::AllocateBuffer(count * static_cast<std::int64_t>(sizeof(T))));
  fill(reinterpret_cast<T*>(bytes->mutable_data()));
  return tensor_rows(arrow::CTypeTraits<T>::type_singleton(), shape, std::move(bytes));
}

/// Return the numbers of a column; `where` keeps them.
Result<const double*> doubles(const Column& column, Column& where) {
  if (!is_of_numbers(*column->type()))
    return Error{Errc::InvalidArgument,
                 fmt::format("it is {}, and must be numbers", column->type()->ToString())};
  TRY(where, numbers_of(*column));
  return static_cast<const arrow::DoubleArray&>(*where).raw_values();
}

/// Make a column of what `value` makes of each number.
template <class T, class Value>
Result<Column> each(const Column& column, Value&& value) {
  Column kept;
  TRY(const double* const in, doubles(column, kept));
  return filled<T>(column->length(), {}, [&](T* out) {
    for (std::int64_t row = 0; row < column->length(); ++row) out[row] = value(in[row]);
  });
}

double power_of(double x, const PreprocessorSpec& spec) {
  const double power = spec.power;
  if (spec.method == "box-cox") return power == 0 ? std::log(x) : (std::pow(x, power) - 1) / power;
  if (x >= 0) return power == 0 ? std::log1p(x) : (std::pow(x + 1, power) - 1) / power;
  return power == 2 ? -std::log1p(-x) : -(std::pow(1 - x, 2 - power) - 1) / (2 - power);
}

/// Return which of `bins` equal bins the number is in; -1 for NaN.
std::int64_t uniform_bin(double x, const FittedColumn& fitted, std::int64_t bins) {
  const double bin = std::floor((x - fitted.offset) / fitted.scale);
  if (std::isnan(bin)) return -1;  // of a missing value, or by a checkpoint that is none of ours
  return static_cast<std::int64_t>(std::clamp(bin, 0.0, static_cast<double>(bins - 1)));
}

std::int64_t custom_bin(double x, const Numbers& edges) {
  if (std::isnan(x)) return -1;
  const auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
  const auto last = std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(edges.size()) - 2);
  return std::clamp<std::int64_t>(above - 1, 0, last);
}

Result<std::vector<std::int64_t>> places_of(const arrow::Array& column,
                                            const std::vector<Category>& categories) {
  if (!is_of_categories(*column.type()))
    return Error{Errc::InvalidArgument,
                 fmt::format("it is {}, and must be whole numbers, true and false, or text",
                             column.type()->ToString())};
  std::vector<std::int64_t> places(static_cast<std::size_t>(column.length()), -1);
  TRY_VOID(visit_categories(column, [&](std::int64_t row, const Category& value) -> Result<Unit> {
    const auto found = std::lower_bound(categories.begin(), categories.end(), value);
    if (found != categories.end() && *found == value)
      places[static_cast<std::size_t>(row)] = found - categories.begin();
    return Unit{};
  }));
  return places;
}

Result<Column> encoded(const Column& column, const FittedColumn& fitted) {
  TRY(const auto places, places_of(*column, fitted.categories));
  return filled<std::int64_t>(column->length(), {}, [&](std::int64_t* out) {
    std::copy(places.begin(), places.end(), out);
  });
}

Result<Column> one_hot(const Column& column, const FittedColumn& fitted) {
  TRY(const auto places, places_of(*column, fitted.categories));
  const auto width = static_cast<std::int64_t>(fitted.categories.size());
  return filled<float>(column->length() * width, {width}, [&](float* out) {
    std::fill(out, out + column->length() * width, 0.0F);
    for (std::size_t row = 0; row < places.size(); ++row)
      if (places[row] >= 0) out[static_cast<std::int64_t>(row) * width + places[row]] = 1;
  });
}

Result<Column> imputed(const Column& column, const FittedColumn& fitted) {
  static constexpr std::string_view kFilling = "cannot fill in its missing values";
  if (!fitted.fill)
    return Error{Errc::InvalidArgument, "there is no value to fill in", "give fill_value"};
  const bool mean = std::holds_alternative<double>(*fitted.fill);
  Column values = column;
  const bool floating = arrow::is_floating(column->type_id());
  if (mean && is_of_numbers(*column->type()) && !floating) {
    ARROW_TRY(values, kFilling, arrow::compute::Cast(*column, arrow::float64()));
  }
  if (floating) {  // NaN becomes null, so that one fill does
    ARROW_TRY(const auto nan, kFilling, arrow::compute::IsNan(arrow::Datum(values)));
    ARROW_TRY(const auto none, kFilling, arrow::MakeArrayOfNull(values->type(), values->length()));
    ARROW_TRY(const auto nulled, kFilling,
              arrow::compute::IfElse(nan, arrow::Datum(none), arrow::Datum(values)));
    values = nulled.make_array();
  }
  const auto scalar = std::visit(
      [](const auto& value) -> std::shared_ptr<arrow::Scalar> { return arrow::MakeScalar(value); },
      *fitted.fill);
  auto fits = scalar->CastTo(values->type());
  if (!fits.ok() || (arrow::is_base_binary_like(values->type_id()) !=
                     std::holds_alternative<std::string>(*fitted.fill)))
    return Error{
        Errc::InvalidArgument,
        fmt::format("{} is no value of {}", scalar->ToString(), values->type()->ToString()),
        "give a fill_value of the column's type"};
  ARROW_TRY(const auto full, kFilling,
            arrow::compute::CallFunction("coalesce", {arrow::Datum(values), arrow::Datum(*fits)}));
  return full.make_array();
}

/// Divide the columns of each row by their norm.
Result<Rows> normalised(const PreprocessorSpec& spec, Rows rows) {
  std::vector<Column> kept(spec.columns.size());
  std::vector<const double*> in;
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    auto numbers = doubles(rows->GetColumnByName(spec.columns[i]), kept[i]);
    if (numbers.has_error())
      return std::move(numbers).error().with_context(fmt::format("column '{}'", spec.columns[i]));
    in.push_back(*numbers);
  }
  Numbers norms(static_cast<std::size_t>(rows->num_rows()), 0);
  for (const double* column : in) {
    for (std::size_t row = 0; row < norms.size(); ++row) {
      const double size = std::abs(column[row]);
      if (spec.norm == "max")
        norms[row] = std::max(norms[row], size);
      else
        norms[row] += spec.norm == "l1" ? size : size * size;
    }
  }
  for (double& norm : norms) {
    if (spec.norm == "l2") norm = std::sqrt(norm);
    if (norm == 0) norm = 1;
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    TRY(const Column column, filled<float>(rows->num_rows(), {}, [&](float* out) {
          for (std::size_t row = 0; row < norms.size(); ++row)
            out[row] = static_cast<float>(in[i][row] / norms[row]);
        }));
    const int at = rows->schema()->GetFieldIndex(spec.columns[i]);
    ARROW_TRY(rows, kNoMemory,
              rows->SetColumn(at, arrow::field(spec.columns[i], column->type()), column));
  }
  return rows;
}

/// Write the numbers of a column's rows into places `stride` apart.
template <class T>
Result<Unit> spread(const Column& column, std::int64_t width, T* out, std::int64_t stride) {
  TRY(const auto flat, flat_values(column));
  Column kept;
  TRY(const double* const in, doubles(flat, kept));
  for (std::int64_t row = 0; row < column->length(); ++row)
    for (std::int64_t i = 0; i < width; ++i)
      out[row * stride + i] = static_cast<T>(in[row * width + i]);
  return Unit{};
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class T>
Result<Column> concatenated(const arrow::RecordBatch& rows, const std::vector<std::string>& names) {
  std::vector<std::int64_t> widths;
  std::int64_t stride = 0;
  for (const std::string& name : names) {
    auto type = tensor_type(rows.GetColumnByName(name)->type());
    if (type.has_error())
      return std::move(type).error().with_context(fmt::format("column '{}'", name));
    widths.push_back(type->row_values());
    stride += widths.back();
  }
  Result<Unit> done = Unit{};
  auto column = filled<T>(rows.num_rows() * stride, {stride}, [&](T* out) {
    for (std::size_t i = 0; i < names.size() && !done.has_error(); ++i) {
      done = spread<T>(rows.GetColumnByName(names[i]), widths[i], out, stride);
      if (done.has_error())
        done = std::move(done).error().with_context("column '" + names[i] + "'");
      out += widths[i];
    }
  });
  if (done.has_error()) return std::move(done).error();
  return column;
}

/// Return the columns that become one: those of the spec, or all of numbers.
std::vector<std::string> joined_columns(const PreprocessorSpec& spec, const arrow::Schema& schema) {
  if (!spec.columns.empty()) return spec.columns;
  std::vector<std::string> names;
  for (const auto& field : schema.fields())
    if (!contains(spec.exclude, field->name()) && !tensor_type(field->type()).has_error())
      names.push_back(field->name());
  return names;
}

Result<Rows> concatenate(const PreprocessorSpec& spec, const Rows& rows) {
  const auto names = joined_columns(spec, *rows->schema());
  if (names.empty()) return Error{Errc::InvalidArgument, "there are no columns of numbers"};
  TRY(auto joined, spec.type == "float64" ? concatenated<double>(*rows, names)
                                          : concatenated<float>(*rows, names));
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int i = 0; i < rows->num_columns(); ++i) {
    const std::string& name = rows->column_name(i);
    if (contains(names, name)) continue;
    if (name == spec.output)
      return Error{Errc::InvalidArgument, fmt::format("there is a column '{}' already", name),
                   "give another output"};
    fields.push_back(rows->schema()->field(i));
    columns.push_back(rows->column(i));
  }
  fields.push_back(arrow::field(spec.output, joined->type()));
  columns.push_back(std::move(joined));
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows->num_rows(),
                                  std::move(columns));
}

Result<Column> column_made(const FittedPreprocessor& one, const std::string& name,
                           const Column& column) {
  const PreprocessorSpec& spec = one.spec;
  const auto found = one.columns.find(name);
  const FittedColumn fitted = found == one.columns.end() ? FittedColumn{} : found->second;
  if (spec.name == "simple_imputer") return imputed(column, fitted);
  if (spec.name == "one_hot_encoder") return one_hot(column, fitted);
  if (spec.name == "label_encoder" || spec.name == "ordinal_encoder")
    return encoded(column, fitted);
  if (spec.name == "uniform_k_bins_discretizer")
    return each<std::int64_t>(column, [&](double x) { return uniform_bin(x, fitted, spec.bins); });
  if (spec.name == "custom_k_bins_discretizer")
    return each<std::int64_t>(column, [&](double x) { return custom_bin(x, spec.edges); });
  if (spec.name == "power_transformer")
    return each<float>(column, [&](double x) { return static_cast<float>(power_of(x, spec)); });
  return each<float>(
      column, [&](double x) { return static_cast<float>((x - fitted.offset) / fitted.scale); });
}

Result<Rows> apply(const FittedPreprocessor& one, Rows rows) {
  for (const std::string& name : one.spec.columns) {
    const int at = rows->schema()->GetFieldIndex(name);
    if (at >= 0) continue;
    return Error{Errc::NotFound, fmt::format("there is no column '{}', only '{}'", name,
                                             fmt::join(rows->schema()->field_names(), "', '"))};
  }
  if (one.spec.name == "concatenator") return concatenate(one.spec, rows);
  if (one.spec.name == "normalizer") return normalised(one.spec, std::move(rows));
  for (const std::string& name : one.spec.columns) {
    const int at = rows->schema()->GetFieldIndex(name);
    auto made = column_made(one, name, rows->column(at));
    if (made.has_error())
      return std::move(made).error().with_context(fmt::format("column '{}'", name));
    ARROW_TRY(rows, kNoMemory, rows->SetColumn(at, arrow::field(name, (*made)->type()), *made));
  }
  return rows;
}

}  // namespace

Result<Rows> preprocess(const std::vector<FittedPreprocessor>& preprocessors, Rows rows) {
  for (const FittedPreprocessor& one : preprocessors) {
    auto done = apply(one, std::move(rows));
    if (done.has_error()) return std::move(done).error().with_context(one.spec.name);
    rows = std::move(*done);
  }
  return rows;
}

Result<std::shared_ptr<arrow::Schema>> preprocessed(
    const std::vector<FittedPreprocessor>& preprocessors,
    const std::shared_ptr<arrow::Schema>& schema) {
  if (preprocessors.empty()) return schema;
  ARROW_TRY(auto none, kNoMemory, arrow::RecordBatch::MakeEmpty(schema));
  TRY(const Rows rows, preprocess(preprocessors, std::move(none)));
  return rows->schema();
}

}  // namespace train::data
