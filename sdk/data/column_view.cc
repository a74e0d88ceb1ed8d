#include "sdk/data/column_view.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <fmt/format.h>

#include <optional>

namespace train::sdk {
namespace {

std::optional<ElementType> element_type(arrow::Type::type id) {
  switch (id) {
    case arrow::Type::BOOL:
      return ElementType::Bool;
    case arrow::Type::UINT8:
      return ElementType::UInt8;
    case arrow::Type::INT8:
      return ElementType::Int8;
    case arrow::Type::INT16:
      return ElementType::Int16;
    case arrow::Type::INT32:
      return ElementType::Int32;
    case arrow::Type::INT64:
      return ElementType::Int64;
    case arrow::Type::HALF_FLOAT:
      return ElementType::Float16;
    case arrow::Type::FLOAT:
      return ElementType::Float32;
    case arrow::Type::DOUBLE:
      return ElementType::Float64;
    default:
      return std::nullopt;
  }
}

[[noreturn]] void refuse(const std::string& column, const std::string& why,
                         const std::string& hint) {
  throw Failure("invalid_argument",
                fmt::format("column '{}' does not fit a tensor: {} ({})", column, why, hint));
}

/// Return the values of lists that all have the same length, and append that length to the shape.
template <class Lists>
std::shared_ptr<arrow::Array> flatten(const std::string& column, const Lists& lists,
                                      std::vector<std::int64_t>& shape) {
  const std::int64_t length = lists.length() == 0 ? 0 : lists.value_length(0);
  for (std::int64_t row = 1; row < lists.length(); ++row) {
    if (lists.value_length(row) == length) continue;
    refuse(column,
           fmt::format("its list has {} values in the batch's row {}, but {} in row 0",
                       lists.value_length(row), row, length),
           "pad the lists when the data is made, or read them with iter_batches");
  }
  shape.push_back(length);
  return lists.length() == 0
             ? lists.values()->Slice(0, 0)
             : lists.values()->Slice(lists.value_offset(0), lists.length() * length);
}

std::shared_ptr<arrow::Array> flatten_level(const std::string& column, const arrow::Array& array,
                                            std::vector<std::int64_t>& shape) {
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return flatten(column, static_cast<const arrow::ListArray&>(array), shape);
    case arrow::Type::LARGE_LIST:
      return flatten(column, static_cast<const arrow::LargeListArray&>(array), shape);
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& lists = static_cast<const arrow::FixedSizeListArray&>(array);
      const std::int64_t length = lists.list_type()->list_size();
      shape.push_back(length);
      return lists.values()->Slice(lists.value_offset(0), lists.length() * length);
    }
    default:
      return nullptr;
  }
}

/// Return the values of bytes that all have the same length as uint8, and append that length to the
/// shape; null for other types.
std::shared_ptr<arrow::Array> bytes_of(const std::string& column, const arrow::Array& array,
                                       std::vector<std::int64_t>& shape) {
  std::shared_ptr<arrow::Buffer> bytes;
  std::int64_t first = 0, length = 0;
  if (array.type_id() == arrow::Type::FIXED_SIZE_BINARY) {
    const auto& rows = static_cast<const arrow::FixedSizeBinaryArray&>(array);
    bytes = rows.data()->buffers[1];
    length = rows.byte_width();
    first = rows.offset() * length;
  } else if (array.type_id() == arrow::Type::BINARY) {
    const auto& rows = static_cast<const arrow::BinaryArray&>(array);
    bytes = rows.value_data();
    first = rows.length() == 0 ? 0 : rows.value_offset(0);
    length = rows.length() == 0 ? 0 : rows.value_length(0);
    for (std::int64_t row = 1; row < rows.length(); ++row) {
      if (rows.value_length(row) == length) continue;
      refuse(column,
             fmt::format("its value has {} bytes in the batch's row {}, but {} in row 0",
                         rows.value_length(row), row, length),
             "decode it when the data is made, or read it with iter_batches");
    }
  } else {
    return nullptr;
  }
  shape.push_back(length);
  if (!bytes) bytes = std::make_shared<arrow::Buffer>(nullptr, 0);
  return std::make_shared<arrow::UInt8Array>(array.length() * length, std::move(bytes), nullptr, 0,
                                             first);
}

void point_at_values(ColumnView& view, const std::shared_ptr<arrow::Array>& values) {
  if (view.type == ElementType::Bool) {
    const auto& bits = static_cast<const arrow::BooleanArray&>(*values);
    auto bytes =
        std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(bits.length()));
    for (std::int64_t i = 0; i < bits.length(); ++i)
      (*bytes)[static_cast<std::size_t>(i)] = bits.Value(i) ? 1 : 0;
    view.data = bytes->data();
    view.owner = std::move(bytes);
    return;
  }
  const int width = values->type()->byte_width();
  view.data = values->data()->buffers[1]->data() + values->offset() * width;
  view.owner = values;
}

ColumnView view_of(const std::string& name, std::shared_ptr<arrow::Array> array) {
  ColumnView view{.name = name, .shape = {array->length()}};
  while (true) {
    if (array->null_count() > 0) {
      refuse(name, fmt::format("{} of its values are null", array->null_count()),
             "fill or drop them when the data is made");
    }
    auto values = flatten_level(name, *array, view.shape);
    if (!values) values = bytes_of(name, *array, view.shape);
    if (!values) break;
    array = std::move(values);
  }
  const auto type = element_type(array->type_id());
  if (!type) {
    refuse(name, fmt::format("its type is {}", array->type()->ToString()),
           "leave it out with `columns` of the dataset, or read it with iter_batches");
  }
  view.type = *type;
  point_at_values(view, array);
  return view;
}

}  // namespace

std::vector<ColumnView> column_views(const Batch& batch) {
  std::vector<ColumnView> views;
  for (int i = 0; i < batch.data->num_columns(); ++i)
    views.push_back(view_of(batch.data->column_name(i), batch.data->column(i)));
  return views;
}

const char* to_string(ElementType type) {
  switch (type) {
    case ElementType::Bool:
      return "bool";
    case ElementType::UInt8:
      return "uint8";
    case ElementType::Int8:
      return "int8";
    case ElementType::Int16:
      return "int16";
    case ElementType::Int32:
      return "int32";
    case ElementType::Int64:
      return "int64";
    case ElementType::Float16:
      return "float16";
    case ElementType::Float32:
      return "float32";
    case ElementType::Float64:
      return "float64";
  }
  return "unknown";
}

}  // namespace train::sdk
