#include "sdk/torch/shard_plan.h"

#include <algorithm>
#include <numeric>

namespace train::sdk {

bool is_empty(const Box& box) {
  return std::any_of(box.size.begin(), box.size.end(), [](std::int64_t n) { return n <= 0; });
}

bool fits(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.size.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool inside = box.offset[d] >= 0 && box.size[d] >= 0 && box.size[d] <= shape[d] &&
                        box.offset[d] <= shape[d] - box.size[d];
    if (!inside) return false;
  }
  return true;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) return std::nullopt;
    both.offset.push_back(begin);
    both.size.push_back(end - begin);
  }
  return both;
}

// Cut off slabs in one dimension after another, until only the intersection is left.
std::vector<Box> difference(const Box& a, const Box& b) {
  const auto both = intersection(a, b);
  if (!both) return {a};
  std::vector<Box> left;
  Box rest = a;
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    const std::int64_t begin = both->offset[d], end = begin + both->size[d];
    const std::int64_t rest_end = rest.offset[d] + rest.size[d];
    if (rest.offset[d] < begin) {
      Box before = rest;
      before.size[d] = begin - rest.offset[d];
      left.push_back(std::move(before));
    }
    if (end < rest_end) {
      Box behind = rest;
      behind.offset[d] = end;
      behind.size[d] = rest_end - end;
      left.push_back(std::move(behind));
    }
    rest.offset[d] = begin;
    rest.size[d] = both->size[d];
  }
  return left;
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.offset.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(box.offset[d]) + ":" + std::to_string(box.offset[d] + box.size[d]);
  }
  return text + "]";
}

std::vector<int> deal_out(const std::vector<std::uint64_t>& bytes, int world_size) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(world_size));
  std::vector<int> writer(bytes.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[i];
    writer[i] = static_cast<int>(least - load.begin());
  }
  return writer;
}

ReadPlan plan_read(const Box& wanted, const std::vector<Box>& pieces) {
  ReadPlan plan;
  if (!is_empty(wanted)) plan.missing.push_back(wanted);
  for (std::size_t i = 0; i < pieces.size() && !plan.missing.empty(); ++i) {
    std::vector<Box> still;
    for (const Box& box : plan.missing) {
      if (auto both = intersection(box, pieces[i])) plan.copies.push_back({i, std::move(*both)});
      for (Box& left : difference(box, pieces[i])) still.push_back(std::move(left));
    }
    plan.missing = std::move(still);
  }
  return plan;
}

}  // namespace train::sdk
