// This file plans which rows a rank reads in each step: it turns units, world size and epoch into
// row ranges. Pure, no Arrow, no I/O; sdk/data makes one plan per epoch, and batch_reader.h
// carries it out. Every rank computes the same plan independently.
//
// The epoch has one global order of all rows, which does not depend on the world size. Step t takes
// its next sum(batch_sizes) rows, which the ranks divide among them. So the rows that a group of
// workers has consumed are always a prefix of the order, described by one number, and any other
// number of workers can continue from there. With an unchanged global batch, a step trains on the
// same rows at any world size.
//
// The order is that of row_order.h, whose sequence is cut into lanes of equal length: position p of
// the order is row p / lanes of lane p % lanes. A rank takes its rows of a step from neighbouring
// lanes, so that it decodes about 1/world_size of the units (at most two lanes' worth if there are
// more workers than lanes). With one lane, which keeps the order of the files, every rank decodes
// every unit.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/row_order.h"

namespace train::data {

// Rows per step of one rank. It keeps the plan's sums over the ranks far from overflow.
inline constexpr std::int64_t kBatchSizeMax = (std::int64_t{1} << 31) - 1;

struct PlanInput {
  UnitLayout layout = {};
  // Rows per step of each rank, by rank; its size is the world size.
  std::vector<std::int64_t> batch_sizes = {};
  int rank = 0;
  OrderSpec order = {};
  std::uint64_t epoch = 0;
  // How much of this epoch's global order all ranks together have consumed before the first batch.
  std::int64_t rows_consumed = 0;
  bool drop_last = false;  // leave out a last step with fewer rows than the others
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

  std::int64_t total_rows() const { return order_.total_rows(); }
  /// Return the number of steps from rows_consumed to the end of the epoch, which is the same on
  /// all ranks.
  std::int64_t batches() const { return batches_; }
  /// Return the number of this rank's valid rows in all of these steps. Between ranks of equal
  /// batch size it differs by at most one.
  std::int64_t share_rows() const;
  /// Return the block that has row `row` of `unit`.
  Block block_of(std::int64_t unit, std::int64_t row) const { return order_.block_of(unit, row); }
  /// Return whether rows are read one by one, and no blocks.
  bool reads_single_rows() const {
    return order_.spec().shuffle == Shuffle::Rows && order_.spec().block_rows == 1;
  }
  /// Return how many blocks a rank uses at about the same time, and a cache should hold.
  std::int64_t open_blocks() const;
  /// Lanes [first, first + count).
  struct Lanes {
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool operator==(const Lanes&) const = default;
  };
  /// Return the lanes that this rank's rows lie in; where the steps of an epoch differ in that,
  /// those of the first thousands of lanes of its steps, and of its last step.
  Lanes own_lanes() const;
  /// Return the units of those lanes, in ascending order: what this rank decodes, at least in part.
  std::vector<std::int64_t> own_units() const;
  /// Return the batch of step `index`, in [0, batches()). Call it in any order, on any thread.
  PlannedBatch batch(std::int64_t index) const;

 private:
  struct Slice {  // one rank's part of a step's rows
    std::int64_t begin = 0;
    std::int64_t valid = 0;
    std::int64_t padded = 0;
  };

  explicit ShardPlan(PlanInput input);
  Slice slice_of_step(std::int64_t step_rows) const;
  template <class Use>
  void for_each_lane(std::int64_t begin, std::int64_t end, std::int64_t skip, std::int64_t count,
                     const Use& use) const;
  std::int64_t lane_begin(std::int64_t lane) const;
  void append_rows(std::int64_t begin, std::int64_t end, std::int64_t skip, std::int64_t count,
                   std::vector<RowRange>& out) const;
  void append_repeat(std::vector<RowRange>& out) const;

  PlanInput input_;
  RowOrder order_;
  std::int64_t step_rows_ = 0;    // of all ranks
  std::int64_t rows_before_ = 0;  // of the lower ranks, in a full step
  std::int64_t batches_ = 0;
};

/// Return the share of `rank` if `total` rows are split equally; the first ranks may get one more.
std::int64_t equal_share(std::int64_t total, int world_size, int rank);

}  // namespace train::data
