#include "sdk/torch/shard_layout.h"

#include <functional>
#include <numeric>

namespace train::sdk {
namespace {

constexpr std::int64_t kAlignment = 16;

std::int64_t aligned(std::int64_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::vector<std::int64_t> ShardLayout::piece_shape(int rank, int world_size) const {
  const Share share = even_share(rows, rank, world_size);
  if (shape.empty())
    return share.size() == 1 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{0};
  std::vector<std::int64_t> piece = shape;
  piece[0] = share.size();
  return piece;
}

UnitLayout layout_of(const std::vector<std::vector<std::int64_t>>& shapes, int world_size) {
  UnitLayout unit;
  for (const std::vector<std::int64_t>& shape : shapes) {
    ShardLayout one;
    one.shape = shape;
    one.rows = shape.empty() ? 1 : shape[0];
    one.row_size = std::accumulate(shape.begin() + (shape.empty() ? 0 : 1), shape.end(),
                                   std::int64_t{1}, std::multiplies<>());
    one.in_unit = unit.size;
    one.in_segment = unit.segment;
    unit.size += aligned(one.size());
    unit.segment += aligned(even_share(one.rows, 0, world_size).size() * one.row_size);  // the most
    unit.parameters.push_back(std::move(one));
  }
  return unit;
}

}  // namespace train::sdk
