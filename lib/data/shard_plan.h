// This file plans which rows a rank reads in which step, from row groups, world size and epoch to
// row ranges. Pure, no Arrow, no I/O; sdk/data makes one plan per epoch, batch_reader.h carries it
// out. Every rank computes the same plan for itself.
//
// The epoch has one global order of all rows, which does not depend on the world size. Step t takes
// the next sum(batch_sizes) rows of it, and the ranks divide those. So what a group of workers has
// consumed is always a prefix of the order, described by one number, and any other number of
// workers can go on from there. With an unchanged global batch, a step trains on the same rows at
// any world size.
//
// The order, in O(row groups) memory:
// - not shuffled: the order of the files. All ranks then walk the same row groups side by side;
// - shuffled, up to kOpenGroups row groups: a permutation of all rows (permutation.h), since all
//   groups fit in the cache;
// - shuffled, more: row groups in random order, rows in random order inside their group, and that
//   sequence cut into kOpenGroups lanes of equal length, which the order visits in turn. So a step
//   mixes rows of kOpenGroups random groups. A rank takes its rows of a step from neighbouring
//   lanes, so that it decodes about a world-size-th of the groups (at most two lanes' worth once
//   there are more workers than lanes). This resembles the shard shuffle with a buffer of
//   WebDataset and tf.data, but with exactly bounded memory and a random start.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/permutation.h"

namespace train::data {

inline constexpr std::int64_t kOpenGroups =
    8;  // row groups that are mixed, so held decoded at once by one rank

struct PlanInput {
  std::vector<std::int64_t> group_rows = {};  // rows of each row group, in the order of the files
  std::vector<std::int64_t> batch_sizes =
      {};  // rows a step of each rank, by rank: as many as the world size
  int rank = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::int64_t rows_consumed =
      0;  // of this epoch's global order, by all ranks together, before the first batch
  bool drop_last = false;  // leave out the step that has fewer rows than the others
};

/// Rows [first, first + count) of one row group.
struct RowRange {
  std::int64_t group = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const RowRange&) const = default;
};

struct PlannedBatch {
  std::vector<RowRange> ranges = {};  // the batch's rows, in order
  std::int64_t valid_rows =
      0;  // the rest repeats rows of this rank's share (of the dataset's, when it has none)
  std::int64_t rows_consumed = 0;  // of the global order, by all ranks together, after this step
  bool operator==(const PlannedBatch&) const = default;
};

class ShardPlan {
 public:
  /// Make a plan. Fails (InvalidArgument) on a batch size below 1, and on more rows consumed than
  /// there are.
  static Result<ShardPlan> make(PlanInput input);

  std::int64_t total_rows() const { return total_rows_; }
  /// Return the steps from rows_consumed to the end of the epoch: the same on all ranks.
  std::int64_t batches() const { return batches_; }
  /// Return this rank's valid rows in all of these steps. Over ranks of equal batch size these
  /// differ by at most one.
  std::int64_t share_rows() const;
  /// Return the number of row groups that a rank touches at about the same time: what a cache
  /// should hold.
  std::int64_t open_groups() const;
  /// Return the batch of step `index`, in [0, batches()). Any order, any thread.
  PlannedBatch batch(std::int64_t index) const;

 private:
  struct Slice {  // of a step's rows
    std::int64_t begin = 0;
    std::int64_t valid = 0;
    std::int64_t padded = 0;
  };

  explicit ShardPlan(PlanInput input);
  std::int64_t lanes() const;
  Slice slice_of_step(std::int64_t step_rows) const;
  void append_rows(std::int64_t begin, std::int64_t end, std::int64_t skip, std::int64_t count,
                   std::vector<RowRange>& out) const;
  void append_sequence(std::int64_t first, std::int64_t count, std::vector<RowRange>& out) const;
  void append_repeat(std::vector<RowRange>& out) const;
  std::int64_t group_at(std::int64_t position) const;

  PlanInput input_;
  std::int64_t total_rows_ = 0;
  std::int64_t step_rows_ = 0;    // of all ranks
  std::int64_t rows_before_ = 0;  // of the lower ranks, in a full step
  std::int64_t batches_ = 0;
  bool mixed_whole_ = false;  // shuffled, and few enough groups for one permutation of all rows
  Permutation rows_;          // of all rows, when mixed_whole_
  Permutation groups_;        // of the groups, when shuffled otherwise
  std::vector<std::int64_t>
      position_begin_;  // rows before the group at each place of the sequence, and the total
};

/// Return rank `rank`'s part of `total` rows split into equal parts: the first ranks have one more.
std::int64_t equal_share(std::int64_t total, int world_size, int rank);

}  // namespace train::data
