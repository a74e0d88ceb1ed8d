#include "sdk/data/column_view.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <fmt/format.h>

#include <limits>
#include <map>
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

/// Return whether tensors have what the type holds, if its lists and bytes are of equal length.
bool fits_tensor(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return fits_tensor(*static_cast<const arrow::BaseListType&>(type).value_type());
    case arrow::Type::BINARY:
    case arrow::Type::FIXED_SIZE_BINARY:
      return true;
    default:
      return element_type(type.id()).has_value();
  }
}

std::shared_ptr<arrow::DataType> arrow_type(ElementType type) {
  switch (type) {
    case ElementType::Bool:
      return arrow::boolean();
    case ElementType::UInt8:
      return arrow::uint8();
    case ElementType::Int8:
      return arrow::int8();
    case ElementType::Int16:
      return arrow::int16();
    case ElementType::Int32:
      return arrow::int32();
    case ElementType::Int64:
      return arrow::int64();
    case ElementType::Float16:
      return arrow::float16();
    case ElementType::Float32:
      return arrow::float32();
    case ElementType::Float64:
      return arrow::float64();
  }
  throw Failure("internal", "a column of an unknown element type");
}

/// A view's memory as Arrow sees it.
class OwnedBuffer final : public arrow::Buffer {
 public:
  OwnedBuffer(const void* data, std::int64_t bytes, std::shared_ptr<const void> owner)
      : arrow::Buffer(static_cast<const std::uint8_t*>(data), bytes), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

std::shared_ptr<arrow::Buffer> packed(const ColumnView& view, std::int64_t count) {
  auto bits = arrow::AllocateBitmap(count);
  if (!bits.ok()) throw Failure("resource_exhausted", bits.status().ToString());
  const auto* bytes = static_cast<const std::uint8_t*>(view.data);
  for (std::int64_t i = 0; i < count; ++i)
    arrow::bit_util::SetBitTo((*bits)->mutable_data(), i, bytes[i] != 0);
  return std::move(bits).ValueUnsafe();
}

/// Return a view as rows of lists of fixed sizes.
std::shared_ptr<arrow::Array> array_of(const ColumnView& view, std::int64_t rows) {
  if (view.shape.empty() || view.shape.front() != rows) {
    throw Failure("invalid_argument",
                  fmt::format("column '{}' has {} rows, and the batch has {}", view.name,
                              view.shape.empty() ? 0 : view.shape.front(), rows));
  }
  std::int64_t count = 1;
  for (const std::int64_t length : view.shape) count *= length;
  const auto type = arrow_type(view.type);
  auto values =
      view.type == ElementType::Bool
          ? packed(view, count)
          : std::make_shared<OwnedBuffer>(view.data, count * type->byte_width(), view.owner);
  auto array =
      arrow::MakeArray(arrow::ArrayData::Make(type, count, {nullptr, std::move(values)}, 0));
  for (std::size_t level = view.shape.size(); level-- > 1;) {
    const std::int64_t length = view.shape[level];
    if (length < 1 || length > std::numeric_limits<std::int32_t>::max())
      throw Failure("invalid_argument",
                    fmt::format("column '{}' has a dimension of {}", view.name, length));
    auto lists = arrow::FixedSizeListArray::FromArrays(array, static_cast<std::int32_t>(length));
    if (!lists.ok()) throw Failure("internal", lists.status().ToString());
    array = std::move(lists).ValueUnsafe();
  }
  return array;
}

}  // namespace

std::int64_t row_count(const Batch& batch) { return batch.data->num_rows(); }

std::vector<ColumnView> column_views(const Batch& batch) {
  std::vector<ColumnView> views;
  for (int i = 0; i < batch.data->num_columns(); ++i)
    views.push_back(view_of(batch.data->column_name(i), batch.data->column(i)));
  return views;
}

std::vector<ColumnView> tensor_column_views(const Batch& batch) {
  std::vector<ColumnView> views;
  for (int i = 0; i < batch.data->num_columns(); ++i) {
    if (fits_tensor(*batch.data->column(i)->type()))
      views.push_back(view_of(batch.data->column_name(i), batch.data->column(i)));
  }
  return views;
}

std::shared_ptr<arrow::RecordBatch> with_tensor_columns(
    const std::shared_ptr<arrow::RecordBatch>& rows, const std::vector<ColumnView>& views) {
  std::map<std::string, const ColumnView*> left;
  for (const ColumnView& view : views) left[view.name] = &view;
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  const auto add = [&](const ColumnView& view) {
    columns.push_back(array_of(view, rows->num_rows()));
    fields.push_back(arrow::field(view.name, columns.back()->type()));
  };
  for (int i = 0; i < rows->num_columns(); ++i) {
    const auto found = left.find(rows->column_name(i));
    if (found != left.end()) {
      add(*found->second);
      left.erase(found);
    } else if (!fits_tensor(*rows->column(i)->type())) {
      fields.push_back(rows->schema()->field(i));
      columns.push_back(rows->column(i));
    }
  }
  for (const auto& [name, view] : left) add(*view);
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows->num_rows(),
                                  std::move(columns));
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
