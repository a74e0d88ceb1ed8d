// Plans which rank writes what of a state that is spread over the ranks, and what each rank has to
// read of it at another world size. Pure: boxes of indices, no tensors, no files.
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
/// Return whether the box lies in a tensor of this shape.
bool fits(const Box& box, const std::vector<std::int64_t>& shape);
/// Return what both hold; none when that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);
/// Return what is left of `a` without `b`: at most two boxes per dimension.
std::vector<Box> difference(const Box& a, const Box& b);
/// Return "[0:4, 2:8]", as Python writes slices.
std::string to_text(const Box& box);

/// Return which rank writes each of the tensors that all ranks hold alike. The largest comes first,
/// and each goes to the rank that has least so far; the result is the same on every rank. `bytes`
/// is by tensor.
std::vector<int> deal_out(const std::vector<std::uint64_t>& bytes, int world_size);

struct Copy {
  std::size_t piece = 0;  // index of the saved piece
  Box box;                // in the whole tensor
  bool operator==(const Copy&) const = default;
};

struct ReadPlan {
  std::vector<Copy> copies;
  std::vector<Box> missing;  // what no piece holds
};
/// Return how to fill `wanted` from the saved pieces: each element once, from the first piece that
/// has it.
ReadPlan plan_read(const Box& wanted, const std::vector<Box>& pieces);

}  // namespace train::sdk
