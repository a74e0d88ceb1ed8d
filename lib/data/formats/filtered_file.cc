// A file without the rows that a filter leaves out. Arrow's expressions carry the filter out.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_scalar.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/expression.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/row_bytes.h"
#include "lib/model/row_filter.h"
#include "lib/progress/dataset_meters.h"

namespace train::data {
namespace {

namespace compute = arrow::compute;
using Batch = std::shared_ptr<arrow::RecordBatch>;

compute::Expression value_of(const RowFilter& literal) {
  return std::visit([](const auto& value) { return compute::literal(value); }, literal.value);
}

arrow::Result<std::shared_ptr<arrow::Array>> values_of(
    const RowFilter& in, const std::shared_ptr<arrow::DataType>& type) {
  std::unique_ptr<arrow::ArrayBuilder> builder;
  std::shared_ptr<arrow::Array> values;
  arrow::ScalarVector scalars;
  for (std::size_t i = 1; i < in.parts.size(); ++i) {
    const compute::Expression literal = value_of(in.parts[i]);
    scalars.push_back(literal.literal()->scalar());
  }
  ARROW_RETURN_NOT_OK(
      arrow::MakeBuilder(arrow::default_memory_pool(), scalars.front()->type, &builder));
  for (const auto& scalar : scalars) ARROW_RETURN_NOT_OK(builder->AppendScalar(*scalar));
  ARROW_RETURN_NOT_OK(builder->Finish(&values));
  return compute::Cast(*values, type);
}

std::string_view function_of(std::string_view comparison) {
  return comparison == "=="   ? "equal"
         : comparison == "!=" ? "not_equal"
         : comparison == "<"  ? "less"
         : comparison == "<=" ? "less_equal"
         : comparison == ">"  ? "greater"
                              : "greater_equal";
}

arrow::Result<compute::Expression> expression_of(const RowFilter& filter,
                                                 const arrow::Schema& schema) {
  using Kind = RowFilter::Kind;
  if (filter.kind == Kind::Column) return compute::field_ref(filter.name);
  if (filter.kind == Kind::Literal) return value_of(filter);
  std::vector<compute::Expression> parts;
  const std::size_t operands = filter.kind == Kind::In ? 1 : filter.parts.size();
  for (std::size_t part = 0; part < operands; ++part) {
    ARROW_ASSIGN_OR_RAISE(auto expression, expression_of(filter.parts[part], schema));
    parts.push_back(std::move(expression));
  }
  switch (filter.kind) {
    case Kind::Compare:
      return compute::call(std::string(function_of(filter.name)), std::move(parts));
    case Kind::IsNull:
      return compute::call("is_null", std::move(parts), compute::NullOptions());
    case Kind::Not:
      return compute::call("invert", std::move(parts));
    case Kind::And:
      return compute::and_(parts);
    case Kind::Or:
      return compute::or_(parts);
    case Kind::In: {
      ARROW_ASSIGN_OR_RAISE(const auto operand, parts.front().Bind(schema));
      ARROW_ASSIGN_OR_RAISE(const auto values, values_of(filter, operand.type()->GetSharedPtr()));
      // A row without a value is in no list, and in no list's rest.
      return compute::call(
          "is_in", std::move(parts),
          compute::SetLookupOptions(values, compute::SetLookupOptions::INCONCLUSIVE));
    }
    default:
      return arrow::Status::Invalid("no such filter");
  }
}

/// A filter for rows of one schema.
class BoundFilter {
 public:
  static Result<BoundFilter> make(const RowFilter& filter, const std::string& text,
                                  const arrow::Schema& schema, const std::string& path) {
    arrow::FieldVector fields;
    for (const std::string& name : columns_of(filter)) {
      const auto field = schema.GetFieldByName(name);
      if (!field) {
        return Error{Errc::NotFound,
                     fmt::format("{} has no column '{}', only '{}'", path, name,
                                 fmt::join(schema.field_names(), "', '")),
                     "correct the dataset's `filter`; texts stand in single quotes"};
      }
      fields.push_back(field);
    }
    BoundFilter bound;
    bound.columns_ = arrow::schema(std::move(fields));
    bound.true_of_nan_ = may_be_true_of_nan(filter);
    const std::string doing = fmt::format("the filter \"{}\" does not fit the columns of {} ({})",
                                          text, path, fmt::join(types_of(*bound.columns_), ", "));
    ARROW_TRY(const auto expression, doing, expression_of(filter, *bound.columns_));
    ARROW_TRY(bound.expression_, doing, expression.Bind(*bound.columns_));
    if (bound.expression_.type()->id() != arrow::Type::BOOL)
      return Error{Errc::InvalidArgument, fmt::format("{}: it is no condition", doing)};
    return bound;
  }

  const std::shared_ptr<arrow::Schema>& columns() const { return columns_; }

  /// Return how many rows stay of `rows` of which this is known; nothing if that tells not enough.
  std::optional<std::int64_t> rows_of(const std::vector<ColumnBounds>& known,
                                      std::int64_t rows) const {
    std::vector<compute::Expression> facts;
    bool numbers_only = true;  // no column may have NaN, of which bounds say nothing
    for (const ColumnBounds& column : known) {
      const bool floating = arrow::is_floating(column.min->type->id());
      if (floating && true_of_nan_) continue;
      numbers_only = numbers_only && !floating;
      const auto value = compute::field_ref(column.column);
      auto within = compute::and_(compute::greater_equal(value, compute::literal(column.min)),
                                  compute::less_equal(value, compute::literal(column.max)));
      facts.push_back(column.maybe_null ? compute::or_(within, compute::is_null(value))
                                        : std::move(within));
    }
    if (facts.empty()) return std::nullopt;
    const auto fact = compute::and_(facts).Bind(*columns_);
    if (!fact.ok()) return std::nullopt;
    const auto left = compute::SimplifyWithGuarantee(expression_, *fact);
    if (!left.ok()) return std::nullopt;
    if (!left->IsSatisfiable()) return 0;
    if (numbers_only && left->Equals(compute::literal(true))) return rows;
    return std::nullopt;
  }

  /// Return a true value for each row that stays.
  arrow::Result<std::shared_ptr<arrow::BooleanArray>> mask(const arrow::RecordBatch& rows) const {
    arrow::ArrayVector columns;
    for (const auto& field : columns_->fields()) {
      auto column = rows.GetColumnByName(field->name());
      if (!column || !column->type()->Equals(*field->type()))
        return arrow::Status::Invalid("column '", field->name(), "' is not as the schema says");
      columns.push_back(std::move(column));
    }
    const compute::ExecBatch batch(
        *arrow::RecordBatch::Make(columns_, rows.num_rows(), std::move(columns)));
    ARROW_ASSIGN_OR_RAISE(const auto result, compute::ExecuteScalarExpression(expression_, batch));
    if (!result.is_scalar())
      return std::static_pointer_cast<arrow::BooleanArray>(result.make_array());
    // A filter without columns has one value for all rows.
    ARROW_ASSIGN_OR_RAISE(auto all, arrow::MakeArrayFromScalar(*result.scalar(), rows.num_rows()));
    return std::static_pointer_cast<arrow::BooleanArray>(std::move(all));
  }

 private:
  /// Return whether the filter may let a row pass because a value is NaN: then it is not enough to
  /// know between which numbers the others lie.
  static bool may_be_true_of_nan(const RowFilter& filter) {
    if (filter.kind == RowFilter::Kind::Not || filter.name == "!=") return true;
    return std::any_of(filter.parts.begin(), filter.parts.end(), may_be_true_of_nan);
  }

  static std::vector<std::string> types_of(const arrow::Schema& schema) {
    std::vector<std::string> types;
    for (const auto& field : schema.fields())
      types.push_back(fmt::format("{}: {}", field->name(), field->type()->ToString()));
    return types;
  }

  std::shared_ptr<arrow::Schema> columns_;
  compute::Expression expression_;
  bool true_of_nan_ = false;
};

class FilteringReader final : public arrow::RecordBatchReader {
 public:
  FilteringReader(std::shared_ptr<arrow::RecordBatchReader> rows,
                  std::shared_ptr<const BoundFilter> filter, DatasetMeters* meters)
      : rows_(std::move(rows)), filter_(std::move(filter)), meters_(meters) {}
  std::shared_ptr<arrow::Schema> schema() const override { return rows_->schema(); }
  arrow::Status ReadNext(Batch* rows) override {
    ARROW_RETURN_NOT_OK(rows_->ReadNext(rows));
    if (*rows == nullptr) return arrow::Status::OK();
    if (meters_ != nullptr) meters_->decode().passed((*rows)->num_rows(), bytes_of_rows(**rows));
    const DatasetMeters::Working filtering(meters_, meters_ ? &meters_->rows_of_unit() : nullptr);
    ARROW_ASSIGN_OR_RAISE(const auto mask, filter_->mask(**rows));
    if (mask->true_count() == mask->length()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const auto kept,
                          compute::Filter(arrow::Datum(*rows), arrow::Datum(mask)));
    *rows = kept.record_batch();
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatchReader> rows_;
  std::shared_ptr<const BoundFilter> filter_;
  DatasetMeters* const meters_;
};

class FilteredFile final : public FormatFile {
 public:
  FilteredFile(std::unique_ptr<FormatFile> file, BoundFilter filter,
               std::shared_ptr<DatasetMeters> meters)
      : file_(std::move(file)),
        filter_(std::make_shared<BoundFilter>(std::move(filter))),
        meters_(std::move(meters)) {}

  /// Count the rows of each unit that stay. Only the units of which that is not known are read.
  Result<Unit> count(const std::string& path) {
    const auto& all = file_->unit_rows();
    std::vector<std::int64_t> unknown;
    for (std::size_t at = 0; at < all.size(); ++at) {
      const auto unit = static_cast<std::int64_t>(at);
      const auto known = filter_->rows_of(file_->bounds(unit, *filter_->columns()), all[at]);
      unit_rows_.push_back(known.value_or(0));
      if (!known) unknown.push_back(unit);
    }
    for (std::size_t at = 0; at < unknown.size(); ++at) {
      const std::size_t ahead = std::min(unknown.size(), at + 1 + kUnitsAhead);
      for (std::size_t next = at + 1; next < ahead; ++next)
        file_->expect(unknown[next], counted_columns());
      const auto unit = static_cast<std::size_t>(unknown[at]);
      TRY(unit_rows_[unit], count_unit(unknown[at], all[unit], path));
    }
    return Unit{};
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return file_->schema(); }
  std::string_view unit_word() const override { return file_->unit_word(); }

  Result<std::shared_ptr<arrow::RecordBatchReader>> open(std::int64_t unit,
                                                         const arrow::Schema& selected,
                                                         std::int64_t rows_at_once) const override {
    TRY(auto rows, file_->open(unit, *with_filter(selected), rows_at_once));
    return std::make_shared<FilteringReader>(std::move(rows), filter_, meters_.get());
  }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto rows, open(unit, selected, unit_rows_[static_cast<std::size_t>(unit)]));
    ARROW_TRY(auto table, "filter", rows->ToTable());
    return table;
  }

  void expect(std::int64_t unit, const arrow::Schema& selected) const override {
    file_->expect(unit, *with_filter(selected));
  }

  std::int64_t decoded_bytes(const arrow::Schema& selected) const override {
    const auto total = [](const std::vector<std::int64_t>& rows) {
      return static_cast<double>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
    };
    const double kept = total(unit_rows_) / std::max(1.0, total(file_->unit_rows()));
    return static_cast<std::int64_t>(kept * static_cast<double>(file_->decoded_bytes(selected)));
  }

 private:
  /// Return the selected columns and those of the filter.
  std::shared_ptr<arrow::Schema> with_filter(const arrow::Schema& selected) const {
    arrow::FieldVector fields = selected.fields();
    for (const auto& field : filter_->columns()->fields()) {
      if (!selected.GetFieldByName(field->name())) fields.push_back(field);
    }
    return arrow::schema(std::move(fields));
  }

  /// Return the columns that are read to count rows. Decoding without columns gives no rows.
  const arrow::Schema& counted_columns() const {
    return filter_->columns()->num_fields() > 0 ? *filter_->columns() : *file_->schema();
  }

  Result<std::int64_t> count_unit(std::int64_t unit, std::int64_t all,
                                  const std::string& path) const {
    const std::string doing =
        fmt::format("cannot filter {} {} of {}", file_->unit_word(), unit, path);
    auto rows = file_->open(unit, counted_columns(), std::min(all, kRowsAtOnce));
    if (rows.has_error()) return std::move(rows).error().with_context(doing);
    std::int64_t kept = 0;
    while (true) {
      ARROW_TRY(const auto batch, doing, (*rows)->Next());
      if (batch == nullptr) return kept;
      ARROW_TRY(const auto mask, doing, filter_->mask(*batch));
      kept += mask->true_count();
    }
  }

  static constexpr std::int64_t kRowsAtOnce = 65536;
  static constexpr std::size_t kUnitsAhead = 4;

  std::unique_ptr<FormatFile> file_;
  std::shared_ptr<const BoundFilter> filter_;
  std::shared_ptr<DatasetMeters> meters_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile filter_file(std::unique_ptr<FormatFile> file, const std::string& path,
                       const FilesSpec& spec) {
  auto parsed = parse_row_filter(spec.filter);
  if (parsed.has_error()) return std::move(parsed).error().with_context("the filter");
  TRY(auto bound, BoundFilter::make(*parsed, spec.filter, *file->schema(), path));
  auto filtered = std::make_unique<FilteredFile>(std::move(file), std::move(bound), spec.meters);
  TRY_VOID(filtered->count(path));
  return filtered;
}

}  // namespace train::data
