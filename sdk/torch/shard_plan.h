// Which rank writes what of a state that is spread over the ranks, and what each has to read of it
// at another world size. Pure: boxes of indices, no tensors, no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace train::sdk {

/// A part of a tensor: where it begins and how long it is, in each dimension. A scalar has none.
struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;
  bool operator==(const Box&) const = default;
};

bool is_empty(const Box& box);
/// Whether it lies in a tensor of this shape.
bool fits(const Box& box, const std::vector<std::int64_t>& shape);
/// What both hold; none where that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);
/// What is left of `a` without `b`: at most two boxes a dimension.
std::vector<Box> difference(const Box& a, const Box& b);
/// "[0:4, 2:8]", as Python slices.
std::string to_text(const Box& box);

/// Of tensors that all ranks hold alike: who writes each. The largest first, each to whom has least
/// so far; the same on every rank. `bytes` by tensor.
std::vector<int> deal_out(const std::vector<std::uint64_t>& bytes, int world_size);

struct Copy {
  std::size_t piece = 0;  // of which saved one
  Box box;                // in the whole tensor
  bool operator==(const Copy&) const = default;
};

struct ReadPlan {
  std::vector<Copy> copies;
  std::vector<Box> missing;  // what no piece holds
};
/// How to fill `wanted` from the saved pieces: each element once, from the first piece that has it.
ReadPlan plan_read(const Box& wanted, const std::vector<Box>& pieces);

}  // namespace train::sdk
