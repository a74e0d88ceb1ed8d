// How the parameters of a unit are divided among the ranks: by rows of their first dimension, as
// even_share() does. A rank's rows of all parameters make one segment; segments are equally long,
// so that one collective call moves them all. Pure: numbers, no tensors.
#pragma once

#include <train/torch.h>

#include <cstdint>
#include <vector>

namespace train::sdk {

/// Where one parameter lies.
struct ShardLayout {
  std::vector<std::int64_t> shape;
  std::int64_t rows = 0;        // a scalar is one row
  std::int64_t row_size = 0;    // elements
  std::int64_t in_unit = 0;     // where it begins in the unit's whole parameters
  std::int64_t in_segment = 0;  // where its rows begin in a segment

  std::int64_t size() const { return rows * row_size; }
  /// The shape of a rank's rows. A scalar has the shape [] on the rank that holds it, [0]
  /// elsewhere.
  std::vector<std::int64_t> piece_shape(int rank, int world_size) const;
};

struct UnitLayout {
  std::vector<ShardLayout> parameters;
  std::int64_t size = 0;     // elements of the whole parameters
  std::int64_t segment = 0;  // elements of one rank's segment, with what fills it up
};

/// Lay out parameters of these shapes. Each begins at a multiple of 16 elements, as the fast
/// kernels like it.
UnitLayout layout_of(const std::vector<std::vector<std::int64_t>>& shapes, int world_size);

}  // namespace train::sdk
