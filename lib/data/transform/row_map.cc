#include "lib/data/transform/row_map.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/data/arrow_error.h"

namespace train::data {

Result<RowMap> RowMap::make(BuiltInMapSpec spec) {
  if (spec.column.empty()) spec.column = spec.name == "one_hot" ? "label" : "image";
  TRY(auto map, make_column_map(spec));
  return RowMap(std::move(spec), std::move(map));
}

Result<int> RowMap::column_of(const arrow::Schema& schema) const {
  const int column = schema.GetFieldIndex(spec_.column);
  if (column >= 0) return column;
  return Error{Errc::NotFound,
               fmt::format("there is no column '{}', only '{}'", spec_.column,
                           fmt::join(schema.field_names(), "', '")),
               "name another column in the map's `column`"};
}

Result<std::shared_ptr<arrow::Schema>> RowMap::output(const arrow::Schema& in) const {
  TRY(const int column, column_of(in));
  const auto& field = in.field(column);
  auto type = map_->output(field->type());
  if (type.has_error())
    return std::move(type).error().with_context(fmt::format("column '{}'", spec_.column));
  ARROW_TRY(auto schema, "no schema", in.SetField(column, field->WithType(*type)));
  return schema;
}

Result<std::shared_ptr<arrow::RecordBatch>> RowMap::apply(const arrow::RecordBatch& rows,
                                                          const std::vector<std::uint64_t>& seeds,
                                                          std::vector<BadRow>& bad) const {
  TRY(const int column, column_of(*rows.schema()));
  const auto& field = rows.schema()->field(column);
  auto type = map_->output(field->type());
  auto mapped = type.has_error() ? Result<std::shared_ptr<arrow::Array>>(std::move(type).error())
                                 : map_->apply(rows.column(column), seeds, bad);
  if (mapped.has_error())
    return std::move(mapped).error().with_context(fmt::format("column '{}'", spec_.column));
  ARROW_TRY(auto batch, "no rows",
            rows.SetColumn(column, field->WithType((*mapped)->type()), *mapped));
  return batch;
}

}  // namespace train::data
