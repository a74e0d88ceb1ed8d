// The order in which an epoch visits the rows of a dataset, as a sequence that knows no workers:
// shard_plan.h divides it into steps and ranks. Pure, no Arrow, no I/O; O(units) of memory.
//
// A dataset has units, which are what a format decodes at once (formats/format_file.h), and each
// unit is cut, in its own order, into blocks. The first block of a shuffled unit is shorter by a
// random number of rows, so that lanes do not all come to their next block in the same step. The
// sequence of
// - None: the units as they are in the files;
// - Files: the files in random order, and the rows of each as they are;
// - Window: the units in random order, each with its blocks as they are, and the rows of each block
//   in random order. The sequence is cut into `lanes` of equal length, which the epoch visits in
//   turn, so that neighbours come from as many blocks as there are lanes. This resembles the shard
//   shuffle of WebDataset and tf.data with their buffers, but with exactly bounded memory, a random
//   start, and a position that is one number;
// - Rows: one permutation of all rows, which are all in memory, or (blocks of one row) are read one
//   by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/plan/permutation.h"

namespace train::data {

enum class Shuffle { None, Files, Window, Rows };

/// Return "none", "files", "window" or "rows".
std::string_view to_string(Shuffle shuffle);

/// What fixes the order of every epoch, for given units. Checkpoints keep it.
struct OrderSpec {
  Shuffle shuffle = Shuffle::None;
  std::uint64_t seed = 0;
  std::int64_t lanes = 1;       // at least 1
  std::int64_t block_rows = 0;  // the rows of a block; 0: a unit is one block
  bool operator==(const OrderSpec&) const = default;
};

inline constexpr std::int64_t kLanesMax = 65536;

/// The units of a dataset, in the order of its files.
struct UnitLayout {
  std::vector<std::int64_t> unit_rows = {};
  std::vector<std::int64_t> file_units = {};  // of each file
  std::vector<std::int64_t> file_bytes = {};  // of each file; part of the digest only
};

/// A block: `rows` rows of a unit, from `first` on.
struct Block {
  std::int64_t number = 0;  // in its unit
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// Rows [first, first + count) of one unit.
struct RowRange {
  std::int64_t unit = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

class RowOrder {
 public:
  RowOrder(const UnitLayout& layout, const OrderSpec& spec, std::uint64_t epoch);

  std::int64_t total_rows() const { return begin_.back(); }
  std::int64_t units() const { return static_cast<std::int64_t>(begin_.size()) - 1; }
  const OrderSpec& spec() const { return spec_; }
  /// Return the block that has row `row` of `unit`.
  Block block_of(std::int64_t unit, std::int64_t row) const;
  /// Append rows [first, first + count) of the sequence. A range may span several blocks.
  void append(std::int64_t first, std::int64_t count, std::vector<RowRange>& out) const;
  /// Append the units that rows [first, first + count) of the sequence are from, each once; with
  /// Rows, all units. O(units).
  void append_units(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& out) const;

  /// Skip `skip` of the positions [begin, end) of the epoch, lane by lane, and call use(lane, from,
  /// taken) for the next `count`: rows [from, from + taken) of a lane. Position p is row p / lanes
  /// of lane p % lanes.
  template <class Use>
  void for_each_lane(std::int64_t begin, std::int64_t end, std::int64_t skip, std::int64_t count,
                     const Use& use) const {
    for (std::int64_t lane = 0; lane < spec_.lanes && count > 0; ++lane) {
      const std::int64_t from = before_in_lane(begin, lane) + skip;
      const std::int64_t to = before_in_lane(end, lane);
      const std::int64_t taken = std::clamp<std::int64_t>(to - from, 0, count);
      skip = std::max<std::int64_t>(0, from - to);
      if (taken > 0) use(lane, from, taken);
      count -= taken;
    }
  }
  /// Return where a lane begins in the sequence.
  std::int64_t lane_begin(std::int64_t lane) const;
  /// Append the rows that for_each_lane() visits.
  void append_part(std::int64_t begin, std::int64_t end, std::int64_t skip, std::int64_t count,
                   std::vector<RowRange>& out) const;

 private:
  /// Return how many of the first `position` positions a lane has.
  std::int64_t before_in_lane(std::int64_t position, std::int64_t lane) const {
    return position <= lane ? 0 : (position - lane + spec_.lanes - 1) / spec_.lanes;
  }
  std::int64_t place_of(std::int64_t row) const;
  std::int64_t unit_at(std::int64_t place) const;
  std::uint64_t unit_key(std::int64_t unit) const;
  void append_shuffled(std::int64_t unit, std::int64_t first, std::int64_t count,
                       std::vector<RowRange>& out) const;

  OrderSpec spec_;
  std::uint64_t key_ = 0;
  std::vector<std::int64_t> units_;  // at each place of the sequence; empty: 0, 1, 2, …
  std::vector<std::int64_t> begin_;  // the rows before each place, and the total
  std::vector<std::int64_t> unit_rows_;
  Permutation rows_;  // Shuffle::Rows
};

/// Return what tells layouts apart.
std::string digest_of(const UnitLayout& layout);

/// Return the spec of the orders of version 1, which checkpoints did not keep: 8 units were mixed
/// at a time.
OrderSpec order_of_version_1(const std::vector<std::int64_t>& unit_rows, bool shuffle,
                             std::uint64_t seed);
/// Return what checkpoints of version 1 kept to identify an order.
std::string digest_of_version_1(const std::vector<std::int64_t>& unit_rows, bool shuffle,
                                std::uint64_t seed);

}  // namespace train::data
