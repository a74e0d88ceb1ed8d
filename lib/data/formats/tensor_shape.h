// The shapes of columns that an extension of Arrow marks as tensors: "arrow.fixed_shape_tensor",
// and Ray Data's "ray.data.arrow_tensor" and "ray.data.arrow_tensor_v2", whose metadata is a list
// of numbers in JSON. Whatever else stands in that metadata is an error, and never run or
// unpickled.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

inline constexpr std::size_t kTensorDimensionsMax = 32;

/// A row's tensor. Its values are stored in row-major order of `shape`.
struct TensorShape {
  std::vector<std::int64_t> shape = {};
  /// The stored dimension that is each dimension of the tensor; empty: they are the same.
  std::vector<std::int64_t> permutation = {};

  /// Return the shape of the tensor itself.
  std::vector<std::int64_t> permuted() const;
  bool operator==(const TensorShape&) const = default;
};

/// Return the shape of a column that is marked as tensors, nothing for any other column. An error
/// if the mark tells no shape, or one whose dimensions are less than 1 or too many.
Result<std::optional<TensorShape>> tensor_shape(const arrow::Field& field);

/// Read a JSON list of whole numbers of at least 1: "[3, 32, 32]".
Result<std::vector<std::int64_t>> parse_shape(std::string_view json);

/// Return the type of the column as nested lists of fixed sizes.
std::shared_ptr<arrow::DataType> plain_type(const arrow::DataType& type, const TensorShape& shape);
/// Return the column so, as a view of its memory unless its dimensions are permuted. An error if a
/// row has another number of values than the shape.
Result<std::shared_ptr<arrow::Array>> plain_tensors(std::shared_ptr<arrow::Array> column,
                                                    const TensorShape& shape);

}  // namespace train::data
