#include "lib/data/plan/choose_order.h"

#include <fmt/format.h>

#include <algorithm>

namespace train::data {
namespace {

/// Return how many lanes as many workers need: each reads whole ones.
std::int64_t lanes_for(int workers) {
  const std::int64_t multiple = (workers + kLanes - 1) / kLanes;
  return std::clamp(multiple * kLanes, kLanes, kLanesMax);
}

std::int64_t choose_lanes(const OrderWish& wish, int workers,
                          std::optional<std::int64_t> lanes_before) {
  const bool mixes = wish.shuffle && wish.mode == Shuffle::Window;
  if (wish.preserve_order && !mixes) return 1;
  if (wish.lanes > 0) return wish.lanes;
  if (lanes_before) return *lanes_before;
  // Rows that are not mixed are read from several places at once only where this spares work.
  return mixes || workers > 1 ? lanes_for(workers) : 1;
}

std::int64_t rows_in(std::int64_t bytes, const DatasetSize& size) {
  const auto rows = static_cast<__int128>(bytes) * size.rows / size.decoded_bytes;
  return static_cast<std::int64_t>(
      std::clamp<__int128>(rows, 1, std::max<std::int64_t>(1, size.rows)));
}

}  // namespace

Result<OrderSpec> choose_order(const OrderWish& wish, const DatasetSize& size, int workers,
                               std::optional<std::int64_t> lanes_before) {
  const Shuffle mode = wish.shuffle ? wish.mode : Shuffle::None;
  const bool fits = size.decoded_bytes <= wish.window_bytes;
  OrderSpec order{.shuffle = mode, .seed = wish.seed};
  if (mode == Shuffle::Rows || (mode == Shuffle::Window && fits)) {
    order.shuffle = Shuffle::Rows;
    if (fits) return order;
    if (!size.reads_rows) {
      return Error{
          Errc::InvalidArgument,
          fmt::format("its rows cannot be shuffled globally: they have about {} MiB, which "
                      "is more than the window of {} MiB, and rows of this format cannot "
                      "be read one by one",
                      size.decoded_bytes >> 20, wish.window_bytes >> 20),
          "use shuffle mode `window` or `files`, or a larger `window`"};
    }
    order.block_rows = 1;
    return order;
  }
  order.lanes = choose_lanes(wish, workers, lanes_before);
  order.block_rows = rows_in(wish.window_bytes / std::max(order.lanes, kLanes), size);
  return order;
}

}  // namespace train::data
