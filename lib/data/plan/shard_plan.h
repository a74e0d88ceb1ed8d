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
#include "lib/data/plan/read_plan.h"
#include "lib/data/plan/step_division.h"

namespace train::data {

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

/// Rows [from, from + count) of a lane.
struct LaneRows {
  std::int64_t lane = 0;
  std::int64_t from = 0;
  std::int64_t count = 0;
  bool operator==(const LaneRows&) const = default;
};

class ShardPlan final : public ReadPlan {
 public:
  /// Make a plan. InvalidArgument for a batch size below 1 or above kBatchSizeMax, or if more rows
  /// are consumed than exist.
  static Result<ShardPlan> make(PlanInput input);

  std::int64_t total_rows() const { return order_.total_rows(); }
  /// Return the number of steps from rows_consumed to the end of the epoch, which is the same on
  /// all ranks.
  std::int64_t batches() const override { return batches_; }
  /// Return the number of this rank's valid rows in all of these steps. Between ranks of equal
  /// batch size it differs by at most one.
  std::int64_t share_rows() const;
  std::int64_t open_blocks() const override;
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
  PlannedBatch batch(std::int64_t index) const override;
  /// Return batch `index` without its ranges.
  PlannedBatch outline(std::int64_t index) const;
  /// Return which lanes the rows of batch `index` lie in, in their order; a repeat is the last.
  std::vector<LaneRows> lane_rows(std::int64_t index) const;
  const RowOrder& order() const override { return order_; }

 private:
  ShardPlan(PlanInput input, StepDivision division);
  struct Step {
    std::int64_t begin = 0, end = 0;  // positions of the epoch
    StepDivision::Slice slice = {};
  };
  Step step(std::int64_t index) const;
  void append_repeat(std::vector<LaneRows>& out) const;

  PlanInput input_;
  StepDivision division_;
  RowOrder order_;
  std::int64_t batches_ = 0;
};

/// Return the share of `rank` if `total` rows are split equally; the first ranks may get one more.
std::int64_t equal_share(std::int64_t total, int world_size, int rank);

}  // namespace train::data
