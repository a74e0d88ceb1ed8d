// Counts the bytes of rows, cheaply: for each batch, not for each row.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

namespace train::data {

/// Return about how many bytes the values of these rows have; rows of other batches in the same
/// buffers do not count. Only offsets of the first and the last row are read.
std::int64_t bytes_of_rows(const arrow::RecordBatch& rows);

}  // namespace train::data
