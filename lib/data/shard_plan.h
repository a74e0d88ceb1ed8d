// This file plans which rows a rank reads in each step: it turns row groups, world size and epoch
// into row ranges. Pure, no Arrow, no I/O; sdk/data makes one plan per epoch, and batch_reader.h
// carries it out. Every rank computes the same plan independently.
//
// The epoch has one global order of all rows, which does not depend on the world size. Step t takes
// its next sum(batch_sizes) rows, which the ranks divide among them. So the rows that a group of
// workers has consumed are always a prefix of the order, described by one number, and any other
// number of workers can continue from there. With an unchanged global batch, a step trains on the
// same rows at any world size.
//
// The order, in O(row groups) memory:
// - not shuffled: the order of the files. All ranks then read the same row groups side by side;
// - shuffled, up to kOpenGroups row groups: a permutation of all rows (permutation.h), since all
//   groups fit in the cache;
// - shuffled, more: row groups in random order, rows in random order within their group, and that
//   sequence cut into kOpenGroups lanes of equal length, which the order visits in turn. So a step
//   mixes rows from kOpenGroups random groups. A rank takes its rows of a step from neighbouring
//   lanes, so that it decodes about 1/world_size of the groups (at most two lanes' worth if there
//   are more workers than lanes). This resembles the shard shuffle of WebDataset and tf.data with
//   their buffers, but with exactly bounded memory and a random start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/permutation.h"

namespace train::data {

// The row groups that are mixed, and so held decoded at the same time by one rank.
inline constexpr std::int64_t kOpenGroups = 8;

// Rows per step of one rank. It keeps the plan's sums over the ranks far from overflow.
inline constexpr std::int64_t kBatchSizeMax = (std::int64_t{1} << 31) - 1;

struct PlanInput {
  std::vector<std::int64_t> group_rows = {};  // rows of each row group, in the order of the files
  // Rows per step of each rank, by rank; its size is the world size.
  std::vector<std::int64_t> batch_sizes = {};
  int rank = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  // How much of this epoch's global order all ranks together have consumed before the first batch.
  std::int64_t rows_consumed = 0;
  bool drop_last = false;  // leave out a last step with fewer rows than the others
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
  // The rest repeats a row of this rank's share, or of the dataset if it has no share.
  std::int64_t valid_rows = 0;
  std::int64_t rows_consumed = 0;  // like PlanInput::rows_consumed, but after this step
  bool operator==(const PlannedBatch&) const = default;
};

class ShardPlan {
 public:
  /// Make a plan. InvalidArgument for a batch size below 1 or above kBatchSizeMax, or if more rows
  /// are consumed than exist.
  static Result<ShardPlan> make(PlanInput input);

  std::int64_t total_rows() const { return total_rows_; }
  /// Return the number of steps from rows_consumed to the end of the epoch, which is the same on
  /// all ranks.
  std::int64_t batches() const { return batches_; }
  /// Return the number of this rank's valid rows in all of these steps. Between ranks of equal
  /// batch size it differs by at most one.
  std::int64_t share_rows() const;
  /// Return how many row groups a rank uses at about the same time, and a cache should hold.
  std::int64_t open_groups() const;
  /// Return the batch of step `index`, in [0, batches()). Call it in any order, on any thread.
  PlannedBatch batch(std::int64_t index) const;

 private:
  struct Slice {  // one rank's part of a step's rows
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
  // The number of rows before the group at each place of the sequence, and the total.
  Permutation rows_;    // of all rows, when mixed_whole_
  Permutation groups_;  // of the groups, when shuffled otherwise
  std::vector<std::int64_t> position_begin_;
};

/// Return what identifies the order of a dataset's rows in each epoch: it differs if the row groups
/// have other sizes, or are shuffled in another way (`seed`; none: not shuffled).
std::string order_of(const std::vector<std::int64_t>& group_rows,
                     std::optional<std::uint64_t> seed);

/// Return the share of `rank` if `total` rows are split equally; the first ranks may get one more.
std::int64_t equal_share(std::int64_t total, int world_size, int rank);

}  // namespace train::data
