#include "sdk/data/items_rows.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "lib/data/arrow_error.h"

namespace train::sdk {
namespace {

constexpr const char* kPlainColumn = "item";

const char* kind_of(const Value& value) {
  static constexpr const char* kKinds[] = {"null",     "a bool", "an integer", "a float",
                                           "a string", "a list", "a dict"};
  return kKinds[value.storage().index()];
}

/// Return the type that holds both; arrow::null() stands for "no value seen yet".
Result<std::shared_ptr<arrow::DataType>> widen(const std::shared_ptr<arrow::DataType>& a,
                                               const std::shared_ptr<arrow::DataType>& b) {
  if (a->Equals(*b) || b->id() == arrow::Type::NA) return a;
  if (a->id() == arrow::Type::NA) return b;
  const auto is_number = [](const arrow::DataType& type) {
    return type.id() == arrow::Type::INT64 || type.id() == arrow::Type::DOUBLE;
  };
  if (is_number(*a) && is_number(*b)) return arrow::float64();
  if (a->id() == arrow::Type::LIST && b->id() == arrow::Type::LIST) {
    TRY(auto item, widen(a->field(0)->type(), b->field(0)->type()));
    return arrow::list(std::move(item));
  }
  return Error{Errc::InvalidArgument,
               fmt::format("found {} beside {}", b->ToString(), a->ToString()),
               "give all items the same type"};
}

Result<std::shared_ptr<arrow::DataType>> type_of(const Value& value) {
  switch (value.storage().index()) {
    case 0:
      return arrow::null();
    case 1:
      return arrow::boolean();
    case 2:
      return arrow::int64();
    case 3:
      return arrow::float64();
    case 4:
      return arrow::utf8();
    case 5: {
      std::shared_ptr<arrow::DataType> item = arrow::null();
      for (const Value& inner : std::get<List>(value.storage())) {
        TRY(const auto inner_type, type_of(inner));
        TRY(item, widen(item, inner_type));
      }
      return arrow::list(std::move(item));
    }
    default:
      return Error{Errc::InvalidArgument, "found a dict inside an item",
                   "make each of its keys a column of its own"};
  }
}

arrow::Status append(arrow::ArrayBuilder& builder, const Value& value) {
  if (value.is_null()) return builder.AppendNull();
  switch (builder.type()->id()) {
    case arrow::Type::BOOL:
      return static_cast<arrow::BooleanBuilder&>(builder).Append(value.as<bool>());
    case arrow::Type::INT64:
      return static_cast<arrow::Int64Builder&>(builder).Append(value.as<std::int64_t>());
    case arrow::Type::DOUBLE:
      return static_cast<arrow::DoubleBuilder&>(builder).Append(value.as<double>());
    case arrow::Type::STRING:
      return static_cast<arrow::StringBuilder&>(builder).Append(value.as<std::string>());
    case arrow::Type::LIST: {
      auto& lists = static_cast<arrow::ListBuilder&>(builder);
      ARROW_RETURN_NOT_OK(lists.Append());
      for (const Value& item : std::get<List>(value.storage()))
        ARROW_RETURN_NOT_OK(append(*lists.value_builder(), item));
      return arrow::Status::OK();
    }
    default:
      return arrow::Status::Invalid("a value in a column of nulls");
  }
}

/// Return the value of `column` in `item`; null when it has none.
const Value& cell(const Value& item, const std::string& column) {
  static const Value kNull;
  if (!item.is_dict()) return item;
  const Dict& dict = std::get<Dict>(item.storage());
  const auto found = dict.find(column);
  return found == dict.end() ? kNull : found->second;
}

Result<std::shared_ptr<arrow::Array>> column_of(const List& items, const std::string& name) {
  std::shared_ptr<arrow::DataType> type = arrow::null();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto in_item = [&](Error error) {
      return std::move(error).with_context(fmt::format("items[{}], column '{}'", i, name));
    };
    auto found = type_of(cell(items[i], name));
    if (found.has_error()) return in_item(std::move(found).error());
    auto widened = widen(type, *found);
    if (widened.has_error()) return in_item(std::move(widened).error());
    type = std::move(*widened);
  }
  const std::string doing = fmt::format("cannot lay out column '{}' of the items", name);
  ARROW_TRY(auto builder, doing, arrow::MakeBuilder(type));
  for (const Value& item : items) {
    if (const arrow::Status status = append(*builder, cell(item, name)); !status.ok())
      return data::error_from(status, doing);
  }
  ARROW_TRY(auto array, doing, builder->Finish());
  return array;
}

Result<std::vector<std::string>> known_columns(const List& items) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_dict() != items.front().is_dict()) {
      return Error{Errc::InvalidArgument,
                   fmt::format("items[{}] is {}, but items[0] is {}", i, kind_of(items[i]),
                               kind_of(items.front())),
                   "give dicts only, or no dicts"};
    }
    if (!items[i].is_dict()) continue;
    for (const auto& [name, value] : std::get<Dict>(items[i].storage())) names.insert(name);
  }
  if (!items.empty() && !items.front().is_dict()) names.insert(kPlainColumn);
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace

Result<std::shared_ptr<arrow::RecordBatch>> rows_from_items(
    const List& items, const std::vector<std::string>& columns) {
  TRY(const auto known, known_columns(items));
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const std::string& name : columns.empty() ? known : columns) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Error{
          Errc::NotFound,
          fmt::format("the items have no column '{}', only '{}'", name, fmt::join(known, "', '")),
          "correct `columns` of the dataset"};
    }
    TRY(auto array, column_of(items, name));
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(std::move(array));
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)),
                                  static_cast<std::int64_t>(items.size()), std::move(arrays));
}

}  // namespace train::sdk
