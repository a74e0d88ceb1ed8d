#include "lib/data/plan/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/check.h"

namespace train::data {
std::int64_t equal_share(std::int64_t total, int world_size, int rank) {
  return total / world_size + (rank < total % world_size ? 1 : 0);
}

Result<ShardPlan> ShardPlan::make(PlanInput input) {
  TRY(auto division, StepDivision::make(input.batch_sizes, input.rank));
  ShardPlan plan(std::move(input), std::move(division));
  if (plan.input_.rows_consumed < 0 || plan.input_.rows_consumed > plan.total_rows()) {
    return Error{
        Errc::InvalidArgument,
        fmt::format("{} rows of epoch {} are consumed, but there are only {}",
                    plan.input_.rows_consumed, plan.input_.epoch, plan.total_rows()),
        "the dataset differs from the checkpoint's; call set_epoch() to start an epoch over"};
  }
  return plan;
}

ShardPlan::ShardPlan(PlanInput input, StepDivision division)
    : input_(std::move(input)),
      division_(std::move(division)),
      order_(input_.layout, input_.order, input_.epoch) {
  input_.layout = {};  // the order has what it needs of it
  batches_ = division_.steps(total_rows() - input_.rows_consumed, input_.drop_last);
}

std::int64_t ShardPlan::open_blocks() const { return open_blocks_of(order_, division_); }

std::int64_t ShardPlan::share_rows() const {
  const std::int64_t left = total_rows() - input_.rows_consumed;
  const std::int64_t rows = left / division_.step_rows() * division_.batch_size();
  return input_.drop_last ? rows : rows + division_.slice_of(left % division_.step_rows()).valid;
}

PlannedBatch ShardPlan::batch(std::int64_t index) const {
  TRAIN_CHECK(index >= 0 && index < batches_, "a batch of this plan");
  const std::int64_t begin = input_.rows_consumed + index * division_.step_rows();
  const std::int64_t end = std::min(begin + division_.step_rows(), total_rows());
  const StepDivision::Slice slice = division_.slice_of(end - begin);
  PlannedBatch planned{
      .ranges = {}, .valid_rows = slice.valid, .rows_consumed = end, .weight = slice.weight};
  order_.append_part(begin, end, slice.begin, slice.valid, planned.ranges);
  if (slice.padded > slice.valid) append_repeat(planned.ranges);  // by exactly one row
  return planned;
}

ShardPlan::Lanes ShardPlan::own_lanes() const {
  std::int64_t first = order_.spec().lanes, last = -1;
  const auto look_at = [&](std::int64_t index) {
    const std::int64_t begin = input_.rows_consumed + index * division_.step_rows();
    const std::int64_t end = std::min(begin + division_.step_rows(), total_rows());
    const StepDivision::Slice slice = division_.slice_of(end - begin);
    order_.for_each_lane(begin, end, slice.begin, slice.valid,
                         [&](std::int64_t lane, std::int64_t, std::int64_t) {
                           first = std::min(first, lane);
                           last = std::max(last, lane);
                         });
  };
  const std::int64_t looked_at =
      std::min(batches_, std::max<std::int64_t>(1, kLanesMax / order_.spec().lanes));
  for (std::int64_t index = 0; index < looked_at; ++index) look_at(index);
  if (batches_ > looked_at) look_at(batches_ - 1);
  return last < 0 ? Lanes{} : Lanes{first, last - first + 1};
}

std::vector<std::int64_t> ShardPlan::own_units() const {
  std::vector<std::int64_t> units;
  const Lanes lanes = own_lanes();
  if (lanes.count > 0) {
    const std::int64_t begin = order_.lane_begin(lanes.first);
    order_.append_units(begin, order_.lane_begin(lanes.first + lanes.count) - begin, units);
  }
  std::sort(units.begin(), units.end());
  return units;
}

/// Append the first row of this rank's share, or of the whole order if it has no share.
void ShardPlan::append_repeat(std::vector<RowRange>& out) const {
  const std::int64_t begin = input_.rows_consumed;
  const std::int64_t end = std::min(begin + division_.step_rows(), total_rows());
  const StepDivision::Slice own = division_.slice_of(end - begin);
  order_.append_part(begin, end, own.valid > 0 ? own.begin : 0, 1, out);
}

}  // namespace train::data
