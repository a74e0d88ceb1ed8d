#include "launcher/core/attempt_cause.h"

#include <fmt/format.h>

#include <utility>

namespace train {

std::string AttemptCause::Failure::summary() const {
  return cause.empty() && rank ? fmt::format("rank {} failed", rank->value) : cause;
}

bool AttemptCause::fail(Failure failure) {
  if (failure_) {
    ++collateral_;
    return false;
  }
  failure_ = std::move(failure);
  return true;
}

AttemptEnded AttemptCause::describe(Attempt attempt, const std::optional<Stop>& stop,
                                    const RankTable& ranks,
                                    const std::optional<CheckpointInfo>& restored) const {
  AttemptEnded ended{};
  ended.attempt = attempt;
  ended.collateral = collateral_;
  ended.resized = resize_ && !failure_ && !stop;
  if (failure_) {
    ended.failed = true;
    ended.cause = failure_->cause;
    ended.failure = failure_->kind;
    ended.node = failure_->node;
    ended.location = location(ranks, restored);
    ended.root_rank = failure_->rank;
    ended.root_end = failure_->end;
    ended.start_error = failure_->start_error;
    ended.marks = failure_->marks;
    return ended;
  }
  ended.cause = stop ? stop->reason : resize_ ? resize_->reason : "every rank ended with 0";
  if (resize_ && resize_->preempted) ended.failure = FailureKind::Preempted;
  return ended;
}

// Return where a worker died. That is not known for a program that never reports, as those of other
// roles.
std::optional<FailureLocation> AttemptCause::location(
    const RankTable& ranks, const std::optional<CheckpointInfo>& restored) const {
  const bool of_a_worker =
      failure_->kind == FailureKind::Worker || failure_->kind == FailureKind::Hung;
  if (!of_a_worker || !failure_->rank || !ranks.trains(*failure_->rank) ||
      !ranks.any_ever_reported())
    return std::nullopt;
  const RankTable::Entry& rank = *ranks.find(*failure_->rank);
  return FailureLocation{*failure_->rank, rank.node, rank.known_report(),
                         restored ? restored->number : 0};
}

}  // namespace train
