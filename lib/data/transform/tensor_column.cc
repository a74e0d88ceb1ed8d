#include "lib/data/transform/tensor_column.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"

namespace train::data {

Result<TensorType> tensor_type(const std::shared_ptr<arrow::DataType>& type) {
  TensorType tensor{.value = type};
  while (tensor.value->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*tensor.value);
    tensor.shape.push_back(list.list_size());
    tensor.value = list.value_type();
  }
  if (arrow::is_numeric(tensor.value->id()) || tensor.value->id() == arrow::Type::BOOL)
    return tensor;
  return Error{Errc::InvalidArgument,
               fmt::format("it is {}, and must be numbers, or lists of fixed sizes of numbers",
                           type->ToString())};
}

Result<std::shared_ptr<arrow::Array>> flat_values(const std::shared_ptr<arrow::Array>& rows) {
  std::shared_ptr<arrow::Array> values = rows;
  while (values->null_count() == 0 && values->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*values);
    values = lists.values()->Slice(lists.value_offset(0),
                                   lists.length() * lists.list_type()->list_size());
  }
  if (values->null_count() == 0) return values;
  return Error{Errc::InvalidArgument, "some of its values are null",
               "fill or drop them when the data is made"};
}

const std::uint8_t* bytes_of(const arrow::Array& values) {
  return values.data()->buffers[1]->data() + values.offset() * values.type()->byte_width();
}

Result<std::shared_ptr<arrow::Array>> tensor_rows(std::shared_ptr<arrow::DataType> value,
                                                  const std::vector<std::int64_t>& shape,
                                                  std::shared_ptr<arrow::Buffer> bytes) {
  const std::int64_t count = bytes->size() / value->byte_width();
  return as_rows(arrow::MakeArray(arrow::ArrayData::Make(std::move(value), count,
                                                         {nullptr, std::move(bytes)}, 0)),
                 shape);
}

}  // namespace train::data
