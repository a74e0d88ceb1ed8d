#include "lib/data/plan/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"

namespace train::data {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

}  // namespace

std::int64_t equal_share(std::int64_t total, int world_size, int rank) {
  return total / world_size + (rank < total % world_size ? 1 : 0);
}

Result<ShardPlan> ShardPlan::make(PlanInput input) {
  TRAIN_CHECK(input.rank >= 0 && input.rank < static_cast<int>(input.batch_sizes.size()),
              "a batch size for each rank");
  for (std::size_t rank = 0; rank < input.batch_sizes.size(); ++rank) {
    if (input.batch_sizes[rank] < 1) {
      return Error{Errc::InvalidArgument,
                   fmt::format("batch_size is {} on rank {}", input.batch_sizes[rank], rank),
                   "give at least 1"};
    }
    if (input.batch_sizes[rank] > kBatchSizeMax) {
      return Error{Errc::InvalidArgument,
                   fmt::format("batch_size is {} on rank {}", input.batch_sizes[rank], rank),
                   fmt::format("give at most {}", kBatchSizeMax)};
    }
  }
  ShardPlan plan(std::move(input));
  if (plan.input_.rows_consumed < 0 || plan.input_.rows_consumed > plan.total_rows()) {
    return Error{
        Errc::InvalidArgument,
        fmt::format("{} rows of epoch {} are consumed, but there are only {}",
                    plan.input_.rows_consumed, plan.input_.epoch, plan.total_rows()),
        "the dataset differs from the checkpoint's; call set_epoch() to start an epoch over"};
  }
  return plan;
}

ShardPlan::ShardPlan(PlanInput input)
    : input_(std::move(input)), order_(input_.layout, input_.order, input_.epoch) {
  input_.layout = {};  // the order has what it needs of it
  const auto mine = input_.batch_sizes.begin() + input_.rank;
  step_rows_ =
      std::accumulate(input_.batch_sizes.begin(), input_.batch_sizes.end(), std::int64_t{0});
  rows_before_ = std::accumulate(input_.batch_sizes.begin(), mine, std::int64_t{0});
  const std::int64_t left = total_rows() - input_.rows_consumed;
  batches_ = input_.drop_last ? left / step_rows_ : ceil_div(left, step_rows_);
}

std::int64_t ShardPlan::open_blocks() const {
  const OrderSpec& order = order_.spec();
  if (order.shuffle == Shuffle::Rows) return order_.units();
  if (order.lanes == 1) return std::min<std::int64_t>(2, order_.units());
  // This rank's rows of a step lie in neighbouring lanes, of which the first and the last may be
  // shared with other ranks.
  const auto mine =
      static_cast<__int128>(input_.batch_sizes[static_cast<std::size_t>(input_.rank)]) *
      order.lanes;
  const auto own = static_cast<std::int64_t>((mine + step_rows_ - 1) / step_rows_) + 1;
  return std::min(order.lanes, own);
}

/// Return this rank's part of a step with `step_rows` rows. The last, shorter step is divided in
/// proportion to the batch sizes. The first ranks get one of the remaining rows each, and all ranks
/// pad to the proportion rounded up.
ShardPlan::Slice ShardPlan::slice_of_step(std::int64_t step_rows) const {
  const auto rank = static_cast<std::size_t>(input_.rank);
  if (step_rows == step_rows_)
    return {rows_before_, input_.batch_sizes[rank], input_.batch_sizes[rank]};
  // 64 bits do not hold the product of the largest batches.
  const auto product = [&](std::size_t r) {
    return static_cast<__int128>(step_rows) * input_.batch_sizes[r];
  };
  const auto whole = [&](std::size_t r) {
    return static_cast<std::int64_t>(product(r) / step_rows_);
  };
  std::int64_t left_over = step_rows;
  for (std::size_t r = 0; r < input_.batch_sizes.size(); ++r) left_over -= whole(r);
  Slice slice;
  for (std::size_t r = 0; r <= rank; ++r) {
    // This fits, since a shorter step leaves room on each rank.
    const std::int64_t one_more = left_over > 0 ? 1 : 0;
    left_over -= one_more;
    slice.begin += slice.valid;
    slice.valid = whole(r) + one_more;
  }
  const std::int64_t rounded_up = whole(rank) + (product(rank) % step_rows_ == 0 ? 0 : 1);
  slice.padded = std::max(slice.valid, rounded_up);
  return slice;
}

std::int64_t ShardPlan::share_rows() const {
  const std::int64_t left = total_rows() - input_.rows_consumed;
  const std::int64_t rows =
      left / step_rows_ * input_.batch_sizes[static_cast<std::size_t>(input_.rank)];
  return input_.drop_last ? rows : rows + slice_of_step(left % step_rows_).valid;
}

PlannedBatch ShardPlan::batch(std::int64_t index) const {
  TRAIN_CHECK(index >= 0 && index < batches_, "a batch of this plan");
  const std::int64_t begin = input_.rows_consumed + index * step_rows_;
  const std::int64_t end = std::min(begin + step_rows_, total_rows());
  const Slice slice = slice_of_step(end - begin);
  PlannedBatch planned{.ranges = {}, .valid_rows = slice.valid, .rows_consumed = end};
  append_rows(begin, end, slice.begin, slice.valid, planned.ranges);
  if (slice.padded > slice.valid) append_repeat(planned.ranges);  // by exactly one row
  return planned;
}

/// Skip `skip` rows of the step [begin, end) of the global order, and call use(lane, from, taken)
/// for the next `count`: rows [from, from + taken) of a lane. Position p of the order is row p /
/// lanes of lane p % lanes; within a step the ranks divide the rows lane by lane.
template <class Use>
void ShardPlan::for_each_lane(std::int64_t begin, std::int64_t end, std::int64_t skip,
                              std::int64_t count, const Use& use) const {
  const std::int64_t lane_count = order_.spec().lanes;
  for (std::int64_t lane = 0; lane < lane_count && count > 0; ++lane) {
    const std::int64_t from = ceil_div(begin - lane, lane_count) + skip;
    const std::int64_t to = ceil_div(end - lane, lane_count);
    const std::int64_t taken = std::clamp<std::int64_t>(to - from, 0, count);
    skip = std::max<std::int64_t>(0, from - to);
    if (taken > 0) use(lane, from, taken);
    count -= taken;
  }
}

/// Return where a lane begins in the sequence.
std::int64_t ShardPlan::lane_begin(std::int64_t lane) const {
  const std::int64_t lanes = order_.spec().lanes;
  // the first lanes have one more row if the rows do not divide evenly
  return lane * (total_rows() / lanes) + std::min(lane, total_rows() % lanes);
}

void ShardPlan::append_rows(std::int64_t begin, std::int64_t end, std::int64_t skip,
                            std::int64_t count, std::vector<RowRange>& out) const {
  for_each_lane(begin, end, skip, count,
                [&](std::int64_t lane, std::int64_t from, std::int64_t taken) {
                  order_.append(lane_begin(lane) + from, taken, out);
                });
}

ShardPlan::Lanes ShardPlan::own_lanes() const {
  std::int64_t first = order_.spec().lanes, last = -1;
  const auto look_at = [&](std::int64_t index) {
    const std::int64_t begin = input_.rows_consumed + index * step_rows_;
    const std::int64_t end = std::min(begin + step_rows_, total_rows());
    const Slice slice = slice_of_step(end - begin);
    for_each_lane(begin, end, slice.begin, slice.valid,
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
    const std::int64_t begin = lane_begin(lanes.first);
    order_.append_units(begin, lane_begin(lanes.first + lanes.count) - begin, units);
  }
  std::sort(units.begin(), units.end());
  return units;
}

/// Append the first row of this rank's share, or of the whole order if it has no share.
void ShardPlan::append_repeat(std::vector<RowRange>& out) const {
  const std::int64_t begin = input_.rows_consumed;
  const std::int64_t end = std::min(begin + step_rows_, total_rows());
  const Slice own = slice_of_step(end - begin);
  append_rows(begin, end, own.valid > 0 ? own.begin : 0, 1, out);
}

}  // namespace train::data
