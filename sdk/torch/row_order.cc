#include "sdk/torch/row_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace train::sdk {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): std::shuffle and the distributions differ between standard
// libraries.
struct SplitMix64 {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// Return a number uniform in [0, bound), by a multiplication (Lemire 2019); its bias is below
  /// bound / 2^64.
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
};

std::vector<std::size_t> permutation(const RowOrder& order, std::uint64_t epoch) {
  std::vector<std::size_t> rows(order.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (!order.shuffle) return rows;
  SplitMix64 seeding{order.seed};
  SplitMix64 random{seeding.next() ^ SplitMix64{epoch}.next()};
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows;
}

}  // namespace

std::size_t share_size(const RowOrder& order) {
  const std::size_t left = order.rows - std::min(order.first, order.rows);
  return order.drop_last ? left / order.world_size
                         : (left + order.world_size - 1) / order.world_size;
}

std::vector<std::size_t> rows_of_rank(const RowOrder& order, std::uint64_t epoch,
                                      std::size_t rank) {
  std::vector<std::size_t> share;
  if (order.rows == 0) return share;
  const std::vector<std::size_t> all = permutation(order, epoch);
  const std::size_t count = share_size(order);
  share.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    share.push_back(all[(order.first + i * order.world_size + rank) % all.size()]);
  return share;
}

}  // namespace train::sdk
