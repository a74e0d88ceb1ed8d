#include "lib/data/row_bytes.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

namespace train::data {
namespace {

constexpr int kDepthMax = 8;  // of nested types that are looked into

std::int64_t bytes_of(const arrow::Array& values, int depth) {
  if (values.length() == 0 || depth > kDepthMax) return 0;
  if (const auto* fixed = dynamic_cast<const arrow::FixedWidthType*>(values.type().get()))
    return (values.length() * fixed->bit_width() + 7) / 8;
  switch (values.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return static_cast<const arrow::BinaryArray&>(values).total_values_length();
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(values).total_values_length();
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(values);
      const auto* item =
          dynamic_cast<const arrow::FixedWidthType*>(list.list_type()->value_type().get());
      const std::int64_t items = values.length() * list.list_type()->list_size();
      return item == nullptr ? 8 * items : (items * item->bit_width() + 7) / 8;
    }
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(values);
      const std::int64_t first = list.value_offset(0);
      const std::int64_t items = list.value_offset(values.length()) - first;
      return bytes_of(*list.values()->Slice(first, items), depth + 1);
    }
    case arrow::Type::STRUCT: {
      std::int64_t bytes = 0;
      for (const auto& field : static_cast<const arrow::StructArray&>(values).fields())
        bytes += bytes_of(*field, depth + 1);
      return bytes;
    }
    case arrow::Type::EXTENSION:
      return bytes_of(*static_cast<const arrow::ExtensionArray&>(values).storage(), depth + 1);
    default:
      return 8 * values.length();  // about
  }
}

}  // namespace

std::int64_t bytes_of_rows(const arrow::RecordBatch& rows) {
  std::int64_t bytes = 0;
  for (const auto& column : rows.columns()) bytes += bytes_of(*column, 0);
  return bytes;
}

}  // namespace train::data
