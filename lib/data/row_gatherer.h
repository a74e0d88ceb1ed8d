// Picks rows out of several record batches into a new one, with one copy of each value where the
// values have a fixed length.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace train::data {

/// Rows [first, first + count) of parts[part], for gather_rows().
struct RowsOfPart {
  std::int64_t part = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Return the rows of `ranges`, in their order. There is at least one part, and all have the same
/// schema; the ranges lie within them.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather_rows(
    const arrow::RecordBatchVector& parts, const std::vector<RowsOfPart>& ranges);

}  // namespace train::data
