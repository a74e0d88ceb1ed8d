#include "cmd/train-data/shown_value.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr int kColumnsMax = 48;       // of a text
constexpr int kValueColumnsMax = 72;  // of any value
constexpr std::size_t kJsonTextMax = 1000;
constexpr std::size_t kBytesShown = 8;
constexpr std::int64_t kItemsShown = 3;
constexpr int kFieldsShown = 8;
constexpr int kDepthMax = 4;

/// Return the bytes of a value of a type that has bytes or texts.
std::string_view bytes_at(const arrow::Array& column, std::int64_t row) {
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(column).GetView(row);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(column).GetView(row);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(column).GetView(row);
    default:
      return static_cast<const arrow::FixedSizeBinaryArray&>(column).GetView(row);
  }
}

std::string shown_text(std::string_view text) {
  return fmt::format(
      "'{}'",
      cut_to_columns(terminal_safe(text.substr(0, std::size_t{8} * kColumnsMax)), kColumnsMax));
}

std::string shown_bytes(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes.substr(0, kBytesShown))
    hex += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
  return fmt::format("<{} byte{}{}{}>", bytes.size(), bytes.size() == 1 ? "" : "s", hex,
                     bytes.size() > kBytesShown ? " …" : "");
}

std::string shown(const arrow::Array& column, std::int64_t row, int depth);

std::string shown_items(const arrow::Array& items, std::int64_t first, std::int64_t count,
                        int depth) {
  std::string text;
  for (std::int64_t i = 0; i < std::min(count, kItemsShown); ++i)
    text += (i > 0 ? ", " : "") + shown(items, first + i, depth + 1);
  if (count > kItemsShown) text += fmt::format(", … {} in all", count);
  return "[" + text + "]";
}

std::string shown_fields(const arrow::StructArray& column, std::int64_t row, int depth) {
  std::string text;
  for (int i = 0; i < std::min(column.num_fields(), kFieldsShown); ++i) {
    text += fmt::format("{}{}: {}", i > 0 ? ", " : "", column.struct_type()->field(i)->name(),
                        shown(*column.field(i), row, depth + 1));
  }
  if (column.num_fields() > kFieldsShown) text += ", …";
  return "{" + text + "}";
}

std::string shown_scalar(const arrow::Array& column, std::int64_t row) {
  const auto scalar = column.GetScalar(row);
  return scalar.ok() ? cut_to_columns(terminal_safe((*scalar)->ToString()), kColumnsMax) : "?";
}

std::string shown(const arrow::Array& column, std::int64_t row, int depth) {
  if (column.IsNull(row)) return "null";
  if (depth > kDepthMax) return "…";
  switch (column.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return shown_text(bytes_at(column, row));
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
      return shown_bytes(bytes_at(column, row));
    case arrow::Type::LIST: {
      const auto& lists = static_cast<const arrow::ListArray&>(column);
      return shown_items(*lists.values(), lists.value_offset(row), lists.value_length(row), depth);
    }
    case arrow::Type::LARGE_LIST: {
      const auto& lists = static_cast<const arrow::LargeListArray&>(column);
      return shown_items(*lists.values(), lists.value_offset(row), lists.value_length(row), depth);
    }
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& lists = static_cast<const arrow::FixedSizeListArray&>(column);
      return shown_items(*lists.values(), lists.value_offset(row), lists.value_length(row), depth);
    }
    case arrow::Type::STRUCT:
      return shown_fields(static_cast<const arrow::StructArray&>(column), row, depth);
    case arrow::Type::EXTENSION:
      return shown(*static_cast<const arrow::ExtensionArray&>(column).storage(), row, depth);
    default:
      return shown_scalar(column, row);
  }
}

}  // namespace

std::string shown_value(const arrow::Array& column, std::int64_t row) {
  return cut_to_columns(terminal_safe(shown(column, row, 0)), kValueColumnsMax);
}

Value json_of_value(const arrow::Array& column, std::int64_t row) {
  if (column.IsNull(row)) return {};
  switch (column.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::INT8:
      return static_cast<const arrow::Int8Array&>(column).Value(row);
    case arrow::Type::INT16:
      return static_cast<const arrow::Int16Array&>(column).Value(row);
    case arrow::Type::INT32:
      return static_cast<const arrow::Int32Array&>(column).Value(row);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(column).Value(row);
    case arrow::Type::UINT8:
      return static_cast<const arrow::UInt8Array&>(column).Value(row);
    case arrow::Type::UINT16:
      return static_cast<const arrow::UInt16Array&>(column).Value(row);
    case arrow::Type::UINT32:
      return static_cast<const arrow::UInt32Array&>(column).Value(row);
    case arrow::Type::FLOAT:
      return static_cast<const arrow::FloatArray&>(column).Value(row);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(column).Value(row);
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return utf8_text(bytes_at(column, row), kJsonTextMax);
    default:
      return utf8_text(shown_value(column, row));
  }
}

}  // namespace train
