// Plans how the columns of one unit of an object are fetched. Pure; what a file says of its columns
// need not be true.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/data/read/data_file.h"

namespace train::data {

/// The bytes that are fetched for one unit at a time. A worker has about as many units open as it
/// has lanes.
inline constexpr std::int64_t kUnitFetchBytes = 4 << 20;

struct ColumnBytes {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// Return the ranges to fetch: of a small unit all of them at once, neighbours as one; of a large
/// one, each large column window by window. Columns that overlap others, or lie outside of the
/// object's `size` bytes, are left out.
std::vector<PlannedRange> plan_columns(std::vector<ColumnBytes> columns, std::int64_t size);

}  // namespace train::data
