// Chooses the order of a dataset's epochs from what the spec says and how large the dataset is.
// Pure.
#pragma once

#include <optional>

#include "lib/base/result.h"
#include "lib/data/plan/row_order.h"

namespace train::data {

/// What a spec says about the order.
struct OrderWish {
  bool shuffle = false;
  /// Files, Window, or Rows; with Window, a dataset that fits into the window is shuffled by rows.
  Shuffle mode = Shuffle::Window;
  std::uint64_t seed = 0;
  std::int64_t window_bytes = 32 << 20;  // of decoded rows that are mixed at a time, at least 1
  std::int64_t lanes = 0;                // 0: kLanes, or as many as several workers need
  bool preserve_order = false;           // not shuffled: one lane, whatever reading it costs
};

struct DatasetSize {
  std::int64_t rows = 0;
  std::int64_t decoded_bytes = 1;
  bool reads_rows = false;  // RowSource::reads_rows()
};

inline constexpr std::int64_t kLanes = 16;

/// Return the order. `workers` read the dataset together. `lanes_before` are those of the
/// checkpoint that the run goes on from: they stay as they were, so that the order of later epochs
/// does not depend on the number of workers. InvalidArgument where rows that do not fit into the
/// window would have to be read one by one, and cannot.
Result<OrderSpec> choose_order(const OrderWish& wish, const DatasetSize& size, int workers,
                               std::optional<std::int64_t> lanes_before);

}  // namespace train::data
