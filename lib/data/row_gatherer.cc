#include "lib/data/row_gatherer.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_vector.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <cstring>
#include <optional>

namespace train::data {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

std::int64_t count_rows(const std::vector<RowsOfPart>& ranges) {
  std::int64_t rows = 0;
  for (const RowsOfPart& range : ranges) rows += range.count;
  return rows;
}

/// The values of an array whose rows all have the same number of bytes, one after the other.
struct Bytes {
  const std::uint8_t* begin = nullptr;
  std::int64_t row_bytes = 0;
};

/// Return the bytes of `array`; nothing if its rows have null values, other lengths, or are bits.
std::optional<Bytes> bytes_of(const arrow::Array& array) {
  if (array.null_count() > 0) return std::nullopt;
  if (const auto* list = dynamic_cast<const arrow::FixedSizeListArray*>(&array)) {
    const auto values = bytes_of(*list->values());
    if (!values) return std::nullopt;
    const std::int64_t row_bytes = values->row_bytes * list->list_type()->list_size();
    return Bytes{values->begin + list->value_offset(0) * values->row_bytes, row_bytes};
  }
  const auto* type = dynamic_cast<const arrow::FixedWidthType*>(array.type().get());
  if (type == nullptr || type->bit_width() % 8 != 0 || array.data()->buffers.size() != 2 ||
      array.data()->buffers[1] == nullptr || array.type_id() == arrow::Type::DICTIONARY)
    return std::nullopt;
  const std::int64_t row_bytes = type->bit_width() / 8;
  return Bytes{array.data()->buffers[1]->data() + array.offset() * row_bytes, row_bytes};
}

/// Return an array of `type` over `values`, which are the bytes of `rows` rows.
std::shared_ptr<arrow::ArrayData> array_over(const std::shared_ptr<arrow::DataType>& type,
                                             std::int64_t rows,
                                             std::shared_ptr<arrow::Buffer> values) {
  if (const auto* list = dynamic_cast<const arrow::FixedSizeListType*>(type.get())) {
    auto inner = array_over(list->value_type(), rows * list->list_size(), std::move(values));
    return arrow::ArrayData::Make(type, rows, {nullptr}, {std::move(inner)}, 0);
  }
  return arrow::ArrayData::Make(type, rows, {nullptr, std::move(values)}, 0);
}

arrow::Result<ArrayPtr> gather_bytes(const std::shared_ptr<arrow::DataType>& type,
                                     const std::vector<Bytes>& parts,
                                     const std::vector<RowsOfPart>& ranges) {
  const std::int64_t rows = count_rows(ranges);
  const std::int64_t row_bytes = parts.front().row_bytes;
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values,
                        arrow::AllocateBuffer(rows * row_bytes));
  std::uint8_t* to = values->mutable_data();
  for (const RowsOfPart& range : ranges) {
    const auto bytes = static_cast<std::size_t>(range.count * row_bytes);
    std::memcpy(to, parts[static_cast<std::size_t>(range.part)].begin + range.first * row_bytes,
                bytes);
    to += bytes;
  }
  return arrow::MakeArray(array_over(type, rows, std::move(values)));
}

/// Gather any values: Arrow takes them from the joined parts.
arrow::Result<ArrayPtr> gather_any(const arrow::ArrayVector& parts,
                                   const std::vector<RowsOfPart>& ranges) {
  // First the rows of each part, so that no more than these are joined.
  std::vector<std::vector<std::int64_t>> wanted(parts.size());
  std::vector<std::vector<std::int64_t>> places(parts.size());
  std::int64_t place = 0;
  for (const RowsOfPart& range : ranges) {
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
      wanted[static_cast<std::size_t>(range.part)].push_back(row);
      places[static_cast<std::size_t>(range.part)].push_back(place++);
    }
  }
  const auto take = [](const arrow::Array& values, const std::vector<std::int64_t>& rows) {
    const arrow::Int64Array indices(static_cast<std::int64_t>(rows.size()),
                                    arrow::Buffer::Wrap(rows));
    return arrow::compute::Take(values, indices, arrow::compute::TakeOptions::NoBoundsCheck());
  };
  arrow::ArrayVector taken;
  std::vector<std::int64_t> order(static_cast<std::size_t>(place));
  std::int64_t joined_row = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    ARROW_ASSIGN_OR_RAISE(auto rows, take(*parts[part], wanted[part]));
    taken.push_back(std::move(rows));
    for (const std::int64_t at : places[part]) order[static_cast<std::size_t>(at)] = joined_row++;
  }
  ARROW_ASSIGN_OR_RAISE(auto joined, arrow::Concatenate(taken));
  return take(*joined, order);
}

arrow::Result<ArrayPtr> gather_column(const arrow::RecordBatchVector& parts, int column,
                                      const std::vector<RowsOfPart>& ranges) {
  std::vector<Bytes> bytes;
  arrow::ArrayVector arrays;
  for (const auto& part : parts) {
    arrays.push_back(part->column(column));
    if (const auto of_part = bytes_of(*arrays.back())) bytes.push_back(*of_part);
  }
  if (bytes.size() < parts.size()) return gather_any(arrays, ranges);
  return gather_bytes(arrays.front()->type(), bytes, ranges);
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather_rows(
    const arrow::RecordBatchVector& parts, const std::vector<RowsOfPart>& ranges) {
  const auto& schema = parts.front()->schema();
  arrow::ArrayVector columns;
  for (int column = 0; column < schema->num_fields(); ++column) {
    ARROW_ASSIGN_OR_RAISE(auto gathered, gather_column(parts, column, ranges));
    columns.push_back(std::move(gathered));
  }
  return arrow::RecordBatch::Make(schema, count_rows(ranges), std::move(columns));
}

}  // namespace train::data
