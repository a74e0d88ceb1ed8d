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

ShardPlan::Step ShardPlan::step(std::int64_t index) const {
  TRAIN_CHECK(index >= 0 && index < batches_, "a batch of this plan");
  const std::int64_t begin = input_.rows_consumed + index * division_.step_rows();
  const std::int64_t end = std::min(begin + division_.step_rows(), total_rows());
  return {begin, end, division_.slice_of(end - begin)};
}

std::vector<LaneRows> ShardPlan::lane_rows(std::int64_t index) const {
  const Step planned = step(index);
  std::vector<LaneRows> rows;
  order_.for_each_lane(planned.begin, planned.end, planned.slice.begin, planned.slice.valid,
                       [&](std::int64_t lane, std::int64_t from, std::int64_t taken) {
                         rows.push_back({lane, from, taken});
                       });
  if (planned.slice.padded > planned.slice.valid) append_repeat(rows);  // by exactly one row
  return rows;
}

PlannedBatch ShardPlan::outline(std::int64_t index) const {
  const Step planned = step(index);
  return {.ranges = {},
          .valid_rows = planned.slice.valid,
          .rows_consumed = planned.end,
          .weight = planned.slice.weight};
}

PlannedBatch ShardPlan::batch(std::int64_t index) const {
  PlannedBatch batch = outline(index);
  for (const LaneRows& rows : lane_rows(index))
    order_.append(order_.lane_begin(rows.lane) + rows.from, rows.count, batch.ranges);
  return batch;
}

ShardPlan::Lanes ShardPlan::own_lanes() const {
  std::int64_t first = order_.spec().lanes, last = -1;
  const auto look_at = [&](std::int64_t index) {
    const Step looked = step(index);
    order_.for_each_lane(looked.begin, looked.end, looked.slice.begin, looked.slice.valid,
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
void ShardPlan::append_repeat(std::vector<LaneRows>& out) const {
  const std::int64_t begin = input_.rows_consumed;
  const std::int64_t end = std::min(begin + division_.step_rows(), total_rows());
  const StepDivision::Slice own = division_.slice_of(end - begin);
  order_.for_each_lane(begin, end, own.valid > 0 ? own.begin : 0, 1,
                       [&](std::int64_t lane, std::int64_t from, std::int64_t taken) {
                         out.push_back({lane, from, taken});
                       });
}

}  // namespace train::data
