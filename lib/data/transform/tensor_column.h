// A column whose rows are numbers, or nested lists of fixed sizes of numbers, as plain memory. The
// maps read and make such columns.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

struct TensorType {
  std::shared_ptr<arrow::DataType> value;
  std::vector<std::int64_t> shape = {};  // of a row; empty: one number

  std::int64_t row_values() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

/// Return the type's value and shape. An error for any other type than numbers and lists of them.
Result<TensorType> tensor_type(const std::shared_ptr<arrow::DataType>& type);
/// Return the values of all rows, which have that many values each, without the lists. An error if
/// any is null.
Result<std::shared_ptr<arrow::Array>> flat_values(const std::shared_ptr<arrow::Array>& rows);

/// Return the address of the first value. Not for bool, which Arrow packs.
const std::uint8_t* bytes_of(const arrow::Array& values);
/// Return `bytes` as rows of `shape`.
Result<std::shared_ptr<arrow::Array>> tensor_rows(std::shared_ptr<arrow::DataType> value,
                                                  const std::vector<std::int64_t>& shape,
                                                  std::shared_ptr<arrow::Buffer> bytes);

}  // namespace train::data
