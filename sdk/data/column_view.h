// A column of a batch as plain memory: shape, element type, address, and owner. This is the seam to
// sdk/torch. It has no Arrow and no Torch type, so that neither side includes the other.
#pragma once

#include <train/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace train::sdk {

enum class ElementType { Bool, UInt8, Int8, Int16, Int32, Int64, Float16, Float32, Float64 };

struct ColumnView {
  std::string name = {};
  ElementType type = ElementType::Float32;
  std::vector<std::int64_t> shape = {};  // [rows], and a dimension for each level of lists
  const void* data = nullptr;  // row-major, without gaps; aligned only to its element type
  /// Keeps `data` alive. Other batches may share that memory, so nobody may write to it.
  std::shared_ptr<const void> owner = {};
};

/// Return how many rows `data` has.
std::int64_t row_count(const Batch& batch);

/// View each column of a batch, in the order of the schema. Numbers, fixed-size lists and lists of
/// equal length, also nested, are views without a copy, and so are bytes of one length, fixed or
/// not, as uint8 [rows, length]. Bools, which Arrow packs eight to a byte,
/// are copied to one byte each. Throws a Failure that names the column for nulls, lists of unequal
/// length (with the row) and types that tensors lack (strings, dates: leave them out with
/// `columns`).
std::vector<ColumnView> column_views(const Batch& batch);

/// Do the same, but pass over the columns whose type no tensor has (strings, dates).
std::vector<ColumnView> tensor_column_views(const Batch& batch);

/// Return `rows` with the columns of `views` in place of those that tensor_column_views() gave:
/// columns that are still there keep their places, new ones come last by name, the others go. The
/// views' memory is shared. All views have as many rows as `rows`, or it throws a Failure.
std::shared_ptr<arrow::RecordBatch> with_tensor_columns(
    const std::shared_ptr<arrow::RecordBatch>& rows, const std::vector<ColumnView>& views);

/// Return "float32", "uint8", …
const char* to_string(ElementType type);

}  // namespace train::sdk
