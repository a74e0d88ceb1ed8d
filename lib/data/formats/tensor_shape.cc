#include "lib/data/formats/tensor_shape.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"

namespace train::data {
namespace {

constexpr std::size_t kQuotedMax = 60;  // bytes of metadata in an error

std::string metadata_of(const arrow::Field& field, const std::string& key) {
  if (!field.metadata()) return {};
  const auto value = field.metadata()->Get(key);
  return value.ok() ? *value : std::string();
}

std::string_view without_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? std::string_view() : text.substr(first);
}

/// Return how many values a row has; nothing if no list can have as many.
std::optional<std::int64_t> values_of(const std::vector<std::int64_t>& shape) {
  std::int64_t values = 1;
  for (const std::int64_t length : shape) {
    if (length < 1 || __builtin_mul_overflow(values, length, &values) ||
        values > std::numeric_limits<std::int32_t>::max())
      return std::nullopt;
  }
  return values;
}

Result<Unit> check(const TensorShape& shape) {
  if (shape.shape.size() <= kTensorDimensionsMax && values_of(shape.shape)) return Unit{};
  return Error{Errc::Corrupt, fmt::format("its shape has {} dimensions of at least 1, at most {} "
                                          "and {} values are possible",
                                          shape.shape.size(), kTensorDimensionsMax,
                                          std::numeric_limits<std::int32_t>::max())};
}

const arrow::DataType& value_type(const arrow::DataType& type) {
  const auto* list = dynamic_cast<const arrow::BaseListType*>(&type);
  return list ? *list->value_type() : type;
}

const arrow::DataType& storage_of(const arrow::DataType& type) {
  const auto* extension = dynamic_cast<const arrow::ExtensionType*>(&type);
  return extension ? *extension->storage_type() : type;
}

Error other_size(std::int64_t row, std::int64_t values, std::int64_t wanted) {
  return Error{Errc::Corrupt, fmt::format("its tensor has {} values in row {}, and {} by its shape",
                                          values, row, wanted)};
}

template <class Lists>
Result<std::shared_ptr<arrow::Array>> list_values(const Lists& lists, std::int64_t length) {
  if (lists.null_count() > 0) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{} of its tensors are null", lists.null_count()),
                 "leave these rows out with the dataset's `filter`"};
  }
  for (std::int64_t row = 0; row < lists.length(); ++row) {
    if (lists.value_length(row) != length) return other_size(row, lists.value_length(row), length);
  }
  const std::int64_t first = lists.length() == 0 ? 0 : lists.value_offset(0);
  return lists.values()->Slice(first, lists.length() * length);
}

/// Return the values of all rows, `length` of each.
Result<std::shared_ptr<arrow::Array>> values_of_rows(const arrow::Array& rows,
                                                     std::int64_t length) {
  switch (rows.type_id()) {
    case arrow::Type::LIST:
      return list_values(static_cast<const arrow::ListArray&>(rows), length);
    case arrow::Type::LARGE_LIST:
      return list_values(static_cast<const arrow::LargeListArray&>(rows), length);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_values(static_cast<const arrow::FixedSizeListArray&>(rows), length);
    default:
      return Error{Errc::Corrupt,
                   fmt::format("its tensors are stored as {}", rows.type()->ToString())};
  }
}

/// Return the values in the order of the permuted dimensions.
Result<std::shared_ptr<arrow::Array>> permute(const arrow::Array& values,
                                              const TensorShape& shape) {
  const auto* type = dynamic_cast<const arrow::FixedWidthType*>(values.type().get());
  if (type == nullptr || type->bit_width() % 8 != 0 || values.null_count() > 0) {
    return Error{Errc::InvalidArgument,
                 "its dimensions are permuted, which only numbers that are not null can be"};
  }
  const auto width = static_cast<std::size_t>(type->bit_width() / 8);
  ARROW_TRY(std::shared_ptr<arrow::Buffer> buffer, "no memory for tensors",
            arrow::AllocateBuffer(values.length() * static_cast<std::int64_t>(width)));
  const std::size_t dimensions = shape.shape.size();
  std::vector<std::int64_t> stored(dimensions, 1);  // the distance between two neighbours
  for (std::size_t d = dimensions - 1; d > 0; --d) stored[d - 1] = stored[d] * shape.shape[d];
  const std::vector<std::int64_t> permuted = shape.permuted();
  const std::int64_t row_values = *values_of(shape.shape);
  std::vector<std::int64_t> from(static_cast<std::size_t>(row_values));  // of a row's values
  for (std::int64_t to = 0; to < row_values; ++to) {
    std::int64_t rest = to;
    for (std::size_t d = dimensions; d-- > 0; rest /= permuted[d])
      from[static_cast<std::size_t>(to)] +=
          rest % permuted[d] * stored[static_cast<std::size_t>(shape.permutation[d])];
  }
  const std::uint8_t* source =
      values.data()->buffers[1]->data() + static_cast<std::size_t>(values.offset()) * width;
  std::uint8_t* target = buffer->mutable_data();
  for (std::int64_t row = 0; row < values.length(); row += row_values) {
    for (const std::int64_t at : from) {
      std::memcpy(target, source + static_cast<std::size_t>(row + at) * width, width);
      target += width;
    }
  }
  return arrow::MakeArray(
      arrow::ArrayData::Make(values.type(), values.length(), {nullptr, std::move(buffer)}, 0));
}

}  // namespace

std::vector<std::int64_t> TensorShape::permuted() const {
  if (permutation.empty()) return shape;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t dimension : permutation)
    lengths.push_back(shape[static_cast<std::size_t>(dimension)]);
  return lengths;
}

Result<std::vector<std::int64_t>> parse_shape(std::string_view json) {
  const Error wrong{
      Errc::Corrupt,
      fmt::format("the shape of its tensors is \"{}\", and no list of numbers as [3, 32, 32]",
                  json.substr(0, kQuotedMax)),
      "write the data with a version of Ray that writes shapes as JSON"};
  std::vector<std::int64_t> shape;
  std::string_view left = without_spaces(json);
  if (!left.starts_with('[')) return wrong;
  left = without_spaces(left.substr(1));
  while (!left.starts_with(']') || !shape.empty()) {
    std::int64_t length = 0;
    const auto read = std::from_chars(left.data(), left.data() + left.size(), length);
    const bool is_number = read.ec == std::errc() && length >= 1 && left.front() != '0';
    if (!is_number || shape.size() == kTensorDimensionsMax) return wrong;
    shape.push_back(length);
    left = without_spaces(left.substr(static_cast<std::size_t>(read.ptr - left.data())));
    if (left.starts_with(']')) break;
    if (!left.starts_with(',')) return wrong;
    left = without_spaces(left.substr(1));
  }
  if (!without_spaces(left.substr(1)).empty()) return wrong;
  return shape;
}

Result<std::optional<TensorShape>> tensor_shape(const arrow::Field& field) {
  TensorShape shape;
  if (const auto* type =
          dynamic_cast<const arrow::extension::FixedShapeTensorType*>(field.type().get())) {
    shape.shape = type->shape();
    const auto& permutation = type->permutation();
    if (!std::is_sorted(permutation.begin(), permutation.end())) shape.permutation = permutation;
  } else {
    const std::string name = metadata_of(field, "ARROW:extension:name");
    if (name != "ray.data.arrow_tensor" && name != "ray.data.arrow_tensor_v2")
      return std::optional<TensorShape>();
    TRY(shape.shape, parse_shape(metadata_of(field, "ARROW:extension:metadata")));
  }
  TRY_VOID(check(shape));
  return std::optional<TensorShape>(std::move(shape));
}

std::shared_ptr<arrow::DataType> plain_type(const arrow::DataType& type, const TensorShape& shape) {
  return row_type(value_type(storage_of(type)).GetSharedPtr(), shape.permuted());
}

Result<std::shared_ptr<arrow::Array>> plain_tensors(std::shared_ptr<arrow::Array> column,
                                                    const TensorShape& shape) {
  if (column->type_id() == arrow::Type::EXTENSION)
    column = static_cast<const arrow::ExtensionArray&>(*column).storage();
  TRY(auto values, values_of_rows(*column, *values_of(shape.shape)));
  if (!shape.permutation.empty()) {
    TRY(values, permute(*values, shape));
  }
  return as_rows(std::move(values), shape.permuted());
}

}  // namespace train::data
