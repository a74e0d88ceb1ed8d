// Decides which rows one rank reads in an epoch. Pure: the same on every machine and compiler,
// since all ranks must agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace train::sdk {

struct RowOrder {
  std::size_t rows = 0;  // of the dataset
  /// Rows to skip at the start of the epoch's permutation, because they were returned before.
  std::size_t first = 0;
  std::size_t world_size = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // else shares are filled up with rows from the epoch's start
};

/// Return the number of rows in each rank's share; it is equal for all ranks.
std::size_t share_size(const RowOrder& order);

/// Return the rows of `rank` in `epoch`, in order: every world_size-th row of the epoch's
/// permutation, from `first` on.
std::vector<std::size_t> rows_of_rank(const RowOrder& order, std::uint64_t epoch, std::size_t rank);

}  // namespace train::sdk
