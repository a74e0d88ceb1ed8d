// Plans which rows of each dataset of a mix a rank reads in each step (mix_order.h says which
// dataset has which position). Like ShardPlan, it gives every rank the same steps, and what a group
// has consumed is one number, at any number of workers. Pure.
//
// The rows that a step takes of one dataset are neighbours in that dataset's own order; the ranks
// divide them lane by lane, as they divide those of a dataset that is read alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/mix_order.h"
#include "lib/data/plan/read_plan.h"

namespace train::data {

struct MixInput {
  std::vector<std::int64_t> batch_sizes = {};  // by rank
  int rank = 0;
  std::int64_t rows_consumed = 0;
  bool drop_last = false;
};

/// Rows of one pass over one dataset: see RowOrder::append_part().
struct MixPart {
  int source = 0;
  std::int64_t pass = 0;
  std::int64_t begin = 0, end = 0, skip = 0, count = 0;
  bool operator==(const MixPart&) const = default;
};

/// `count` rows of a part, in the batch.
struct MixedRows {
  std::size_t part = 0;
  std::int64_t count = 0;
};

struct MixedStep {
  std::vector<MixPart> parts = {};
  std::vector<MixedRows> rows = {};  // the batch's rows, in order
  std::int64_t valid_rows = 0;       // the rest repeats the first row
  std::int64_t repeats = 0;
  std::int64_t rows_consumed = 0;  // after this step
  double weight = 1;               // as StepDivision::Slice
};

class MixPlan {
 public:
  /// InvalidArgument for a batch size that cannot be, or if more rows are consumed than there are.
  static Result<MixPlan> make(MixOrder order, MixInput input);

  const MixOrder& order() const { return order_; }
  const StepDivision& division() const { return division_; }
  std::int64_t batches() const { return batches_; }
  MixedStep step(std::int64_t index) const;

 private:
  MixPlan(MixOrder order, MixInput input, StepDivision division);
  void append_parts(int source, std::int64_t begin, std::int64_t end, std::int64_t from,
                    std::int64_t to, std::vector<MixPart>& parts) const;

  MixOrder order_;
  MixInput input_;
  StepDivision division_;
  std::int64_t batches_ = 0;
};

/// What a rank reads of one pass over one dataset of a mix.
class MixPassPlan final : public ReadPlan {
 public:
  MixPassPlan(std::shared_ptr<const MixPlan> plan, int source, std::int64_t pass, RowOrder order)
      : plan_(std::move(plan)), source_(source), pass_(pass), order_(std::move(order)) {}

  std::int64_t batches() const override { return plan_->batches(); }
  PlannedBatch batch(std::int64_t index) const override;
  const RowOrder& order() const override { return order_; }
  std::int64_t open_blocks() const override { return open_blocks_of(order_, plan_->division()); }

 private:
  std::shared_ptr<const MixPlan> plan_;
  int source_;
  std::int64_t pass_;
  RowOrder order_;
};

}  // namespace train::data
