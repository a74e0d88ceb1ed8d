#include "lib/data/plan/mix_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/check.h"

namespace train::data {

Result<MixPlan> MixPlan::make(MixOrder order, MixInput input) {
  TRY(auto division, StepDivision::make(input.batch_sizes, input.rank));
  if (input.rows_consumed < 0 || input.rows_consumed > order.total_rows()) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{} rows of the epoch are consumed, but there are only {}",
                             input.rows_consumed, order.total_rows()),
                 "the mix differs from the checkpoint's; call set_epoch() to start an epoch over"};
  }
  return MixPlan(std::move(order), std::move(input), std::move(division));
}

MixPlan::MixPlan(MixOrder order, MixInput input, StepDivision division)
    : order_(std::move(order)), input_(std::move(input)), division_(std::move(division)) {
  batches_ = division_.steps(order_.total_rows() - input_.rows_consumed, input_.drop_last);
}

/// Of the rows [begin, end) of a dataset that a step takes, in all its passes, append this rank's
/// [from, to), pass by pass.
void MixPlan::append_parts(int source, std::int64_t begin, std::int64_t end, std::int64_t from,
                           std::int64_t to, std::vector<MixPart>& parts) const {
  const std::int64_t rows = order_.rows_of(source);
  std::int64_t skip = from - begin;
  std::int64_t count = to - from;
  while (count > 0) {
    const std::int64_t pass = begin / rows;
    const std::int64_t pass_end = std::min(end, (pass + 1) * rows);
    const std::int64_t taken = std::clamp<std::int64_t>(pass_end - begin - skip, 0, count);
    if (taken > 0) {
      const std::int64_t first = pass * rows;
      parts.push_back({source, pass, begin - first, pass_end - first, skip, taken});
    }
    skip = std::max<std::int64_t>(0, skip - (pass_end - begin));
    count -= taken;
    begin = pass_end;
  }
}

MixedStep MixPlan::step(std::int64_t index) const {
  TRAIN_CHECK(index >= 0 && index < batches_, "a batch of this plan");
  const std::int64_t begin = input_.rows_consumed + index * division_.step_rows();
  const std::int64_t end = std::min(begin + division_.step_rows(), order_.total_rows());
  const StepDivision::Slice slice = division_.slice_of(end - begin);
  // Without a row of its own, a rank repeats the step's first.
  const std::int64_t from = slice.valid > 0 ? begin + slice.begin : begin;
  const std::int64_t to = from + std::max<std::int64_t>(slice.valid, 1);
  MixedStep step{.valid_rows = slice.valid, .rows_consumed = end, .weight = slice.weight};
  step.repeats = slice.padded - (slice.valid > 0 ? slice.valid : 1);
  std::vector<std::size_t> part(static_cast<std::size_t>(order_.sources()));  // of the next row
  for (int source = 0; source < order_.sources(); ++source) {
    part[static_cast<std::size_t>(source)] = step.parts.size();
    append_parts(source, order_.before(source, begin), order_.before(source, end),
                 order_.before(source, from), order_.before(source, to), step.parts);
  }
  std::vector<std::int64_t> left;
  for (const MixPart& one : step.parts) left.push_back(one.count);
  for (std::int64_t position = from; position < to; ++position) {
    std::size_t& at = part[static_cast<std::size_t>(order_.source_at(position))];
    if (left[at] == 0) ++at;
    --left[at];
    if (step.rows.empty() || step.rows.back().part != at)
      step.rows.push_back({at, 1});
    else
      ++step.rows.back().count;
  }
  return step;
}

PlannedBatch MixPassPlan::batch(std::int64_t index) const {
  const MixedStep step = plan_->step(index);
  PlannedBatch planned{.rows_consumed = step.rows_consumed};
  for (const MixPart& part : step.parts) {
    if (part.source != source_ || part.pass != pass_) continue;
    order_.append_part(part.begin, part.end, part.skip, part.count, planned.ranges);
    planned.valid_rows += part.count;
  }
  return planned;
}

}  // namespace train::data
