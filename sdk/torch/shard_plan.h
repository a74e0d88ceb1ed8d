// Plans which parts of a state that is spread over the ranks each rank writes, and which parts it
// has to read at another world size. Pure: boxes of indices, no tensors, no files.
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
/// Return the overlap of the two boxes; none if there is none.
std::optional<Box> intersection(const Box& a, const Box& b);
/// Return what is left of `a` without `b`: at most two boxes per dimension.
std::vector<Box> difference(const Box& a, const Box& b);
/// Return "[0:4, 2:8]", as Python writes slices.
std::string to_text(const Box& box);

/// Return which rank writes each of the tensors that are the same on all ranks. Starts with the
/// largest, and assigns each to the rank with the fewest bytes so far; the result is the same on
/// every rank. `bytes`: by tensor.
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
