#include "launcher/core/quiesce.h"

#include <algorithm>
#include <utility>

#include "lib/base/overloaded.h"

namespace train {
namespace {

// Return the earliest report where the ranks may meet. A rank that ended by itself does not wait
// for the others. Ranks that leave for good stop where it ended. A group that is to be resized
// could no longer hand over a whole checkpoint, and would have to repeat everything since its last
// one, so it continues to its own end.
std::uint64_t earliest_meeting(const RankTable& ranks, const Quiesce::Surroundings& around) {
  if (!ranks.own_end_at()) return 0;
  return around.for_good ? *ranks.own_end_at() : UINT64_MAX;
}

}  // namespace

Quiesce::Next Quiesce::advance(RankTable& ranks, const Surroundings& around, TimePoint now) {
  if (now >= deadline_) return Next::TimedOut;
  return std::visit(Overloaded{[&](Gather& step) { return gather(step, ranks, around, now); },
                               [&](Advance& step) { return meet(step, ranks, around, now); },
                               [](Finish&) { return Next::Wait; }},
                    step_);
}

Quiesce::Next Quiesce::gather(Gather& gather, RankTable& ranks, const Surroundings& around,
                              TimePoint now) {
  if (ranks.any_paused() && !gather.first_paused_at) gather.first_paused_at = now;
  if (ranks.any_on_the_way()) {
    // In lockstep training, a rank was past its report when the order came, and now waits in a
    // collective for one that is paused. Its next report is where all can meet.
    gather.reporting_paused_at.reset();
    const auto until = gather_until(gather);
    if (!until || now < *until) return Next::Wait;
    return advance_to(std::max(ranks.next_common_report(), earliest_meeting(ranks, around)), ranks);
  }
  // Wait a little for a rank that has not joined yet, or whose news is late.
  if (!gather.reporting_paused_at) gather.reporting_paused_at = now;
  if (!ranks.all_living_paused() && now < *gather.reporting_paused_at + kStragglerPause)
    return Next::Wait;
  return advance_to(std::max(ranks.furthest_pause(), earliest_meeting(ranks, around)), ranks);
}

Quiesce::Next Quiesce::meet(Advance& advance, RankTable& ranks, const Surroundings& around,
                            TimePoint now) {
  if (const std::uint64_t earliest = earliest_meeting(ranks, around); earliest > advance.meeting)
    return advance_to(earliest, ranks);
  if (ranks.any_on_the_way()) return Next::Wait;
  if (advance.checkpointing && ranks.any_checkpoint_pending()) return Next::Wait;
  if (!advance.at_rest || advance.at_rest->version != ranks.version())
    advance.at_rest =
        at_rest(ranks, at_checkpoint_ ? std::nullopt : std::optional(advance.meeting));
  const auto& [version, elsewhere, nearest, furthest, common_checkpoint] = *advance.at_rest;
  const bool pending = ranks.any_checkpoint_pending();
  if (elsewhere) return Next::Wait;
  if (at_checkpoint_ && nearest < furthest) return advance_to(furthest, ranks);
  if (at_checkpoint_) advance.meeting = furthest;
  // Without a rank that has not reported yet, a checkpoint could not become complete.
  if (pending && ranks.any_silent()) return Next::Wait;
  if (pending) return std::exchange(advance.checkpointing, true) ? Next::Wait : Next::Send;
  if (around.committing) return Next::AwaitCommit;
  if (!advance.all_arrived_at) advance.all_arrived_at = now;
  // A rank that ended earlier makes no checkpoint here, so the others' will never be complete.
  const bool hopeless = ranks.any_ended() && now >= *advance.all_arrived_at + kStragglerPause;
  if (around.resolved_checkpoint < common_checkpoint && !hopeless) return Next::Wait;
  deadline_ = std::min(deadline_, now + kFinishGrace);
  step_ = Finish{advance.meeting};
  return Next::Send;
}

/// Look at ranks of which none is on the way. `meeting`: where they are to be.
Quiesce::AtRest Quiesce::at_rest(const RankTable& ranks, std::optional<std::uint64_t> meeting) {
  AtRest found{.version = ranks.version()};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankTable::Entry& rank = ranks.all()[i];
    if (!rank.reports()) continue;
    found.elsewhere |= meeting && rank.paused != meeting;
    found.nearest = std::min(found.nearest, *rank.paused);
    found.furthest = std::max(found.furthest, *rank.paused);
    found.common_checkpoint = std::min(found.common_checkpoint, rank.checkpoint_seq);
  }
  return found;
}

Quiesce::Next Quiesce::advance_to(std::uint64_t report_seq, RankTable& ranks) {
  ranks.resume_until(report_seq);
  step_ = Advance{.meeting = report_seq};
  return Next::Send;
}

bool Quiesce::escalate(TimePoint deadline, TimePoint now) {
  deadline_ = std::min(deadline_, deadline);
  if (!std::exchange(at_checkpoint_, false) || finishing()) return false;
  step_ = Gather{.since = now};
  return true;
}

// Return how long to wait for ranks that report, before we assume that one of them waits for
// another.
std::optional<TimePoint> Quiesce::gather_until(const Gather& gather) const {
  if (!at_checkpoint_) return gather.since + kGatherPause;
  if (!gather.first_paused_at) return std::nullopt;
  return *gather.first_paused_at + kGatherPause;
}

PauseStep Quiesce::to_send() const {
  return std::visit(Overloaded{[](const Gather&) { return PauseStep::Pause; },
                               [](const Advance& step) {
                                 return step.checkpointing ? PauseStep::Checkpoint
                                                           : PauseStep::Advance;
                               },
                               [](const Finish&) { return PauseStep::Finish; }},
                    step_);
}

std::uint64_t Quiesce::meeting() const {
  return std::visit(Overloaded{[](const Gather&) { return std::uint64_t{0}; },
                               [](const Advance& step) { return step.meeting; },
                               [](const Finish& step) { return step.meeting; }},
                    step_);
}

bool Quiesce::is_past_the_end(std::uint64_t report_seq) const {
  const bool known = finishing() || (std::holds_alternative<Advance>(step_) && !at_checkpoint_);
  return known && report_seq > meeting();
}

std::optional<TimePoint> Quiesce::next_deadline(TimePoint now) const {
  std::optional<TimePoint> step = std::visit(
      Overloaded{[&](const Gather& gather) -> std::optional<TimePoint> {
                   if (gather.reporting_paused_at)
                     return *gather.reporting_paused_at + kStragglerPause;
                   const auto until = gather_until(gather);
                   return until && now < *until ? until : std::nullopt;
                 },
                 [&](const Advance& advance) -> std::optional<TimePoint> {
                   if (!advance.all_arrived_at) return std::nullopt;
                   const TimePoint hopeless_at = *advance.all_arrived_at + kStragglerPause;
                   return now < hopeless_at ? std::optional(hopeless_at) : std::nullopt;
                 },
                 [](const Finish&) -> std::optional<TimePoint> { return std::nullopt; }},
      step_);
  if (deadline_ != TimePoint::max() && (!step || deadline_ < *step)) return deadline_;
  return step;
}

}  // namespace train
