// What a BatchReader carries out: the rows of each batch, and what it needs to know of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/data/plan/row_order.h"
#include "lib/data/plan/step_division.h"

namespace train::data {

struct PlannedBatch {
  std::vector<RowRange> ranges = {};  // the batch's rows, in order
  // The rest repeats a row of this rank's share, or of the dataset if it has no share.
  std::int64_t valid_rows = 0;
  std::int64_t rows_consumed = 0;  // like PlanInput::rows_consumed, but after this step
  double weight = 1;               // as StepDivision::Slice
  bool operator==(const PlannedBatch&) const = default;
};

class ReadPlan {
 public:
  virtual ~ReadPlan() = default;
  virtual std::int64_t batches() const = 0;
  /// Return batch `index`, in [0, batches()). Call it in any order, on any thread.
  virtual PlannedBatch batch(std::int64_t index) const = 0;
  virtual const RowOrder& order() const = 0;
  /// Return how many blocks a rank uses at about the same time, and a cache should hold.
  virtual std::int64_t open_blocks() const = 0;

  /// Return the block that has row `row` of `unit`.
  Block block_of(std::int64_t unit, std::int64_t row) const { return order().block_of(unit, row); }
  /// Return whether rows are read one by one, and no blocks.
  bool reads_single_rows() const {
    return order().spec().shuffle == Shuffle::Rows && order().spec().block_rows == 1;
  }
};

/// Return open_blocks() of a rank that reads its share of each step of this order.
std::int64_t open_blocks_of(const RowOrder& order, const StepDivision& division);

}  // namespace train::data
