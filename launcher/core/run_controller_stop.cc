// RunController's part for endings: a failure takes the group down, a request stops it gracefully.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/run_controller.h"

namespace train {

void RunController::fail(Failure failure) {
  if (attempt_.cause.failure) {
    ++attempt_.cause.collateral;
    return;
  }
  const std::string reason = failure.cause.empty() && failure.rank
                                 ? fmt::format("rank {} failed", failure.rank->value)
                                 : failure.cause;
  const bool drained = failure.node && nodes_.draining(*failure.node);
  if (drained && failure.kind != FailureKind::Permanent) failure.kind = FailureKind::Preempted;
  attempt_.cause.failure = std::move(failure);
  if (state_ != RunState::TearingDown) begin_teardown(kSurvivorGrace, reason);
}

void RunController::begin_teardown(Duration grace, const std::string& reason) {
  change_state(RunTrigger::GroupEnding, reason);
  stop_hosts(grace, reason);
}

void RunController::stop_hosts(Duration grace, const std::string& reason) {
  attempt_.teardown.begin(grace, reason, now_);
  attempt_.hosts.for_each_there([this](NodeId node) {
    actions_.push_back(attempt_.teardown.order_for(attempt_.id, node, now_));
  });
}

void RunController::on(const StopAsked& event) {
  const bool again =
      stop_ && stop_->kind != StopKind::StopCondition && event.kind != StopKind::StopCondition;
  if (stop_ && event.kind == StopKind::StopCondition) return;
  if (!stop_ || stop_->kind == StopKind::StopCondition) stop_ = Stop{event.kind, event.reason};
  const bool was_offered = checkpoints_.offered_to_give_up();
  if (again || (was_offered && event.kind == StopKind::Interrupt)) attempt_.teardown.escalate();
  switch (state_) {
    case RunState::Attaching:  // advance_attaching comes back to it
      if (again) begin_teardown(Duration{0}, "asked to stop immediately");
      break;
    case RunState::Preparing:
    case RunState::Starting:
      begin_teardown(spec_.run_config.failure_config.stop_grace, event.reason);
      break;
    case RunState::Running:
      begin_stop();
      break;
    case RunState::Pausing:
      if (again)
        begin_teardown(Duration{0}, "asked to stop immediately");
      else
        hurry_pause(now_ + spec_.run_config.failure_config.stop_grace);
      break;
    case RunState::TearingDown:
      if (again) stop_hosts(Duration{0}, "asked to stop immediately");
      break;
    case RunState::Scheduling:  // advance_scheduling ends the run
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      break;
  }
}

// Stop the group, gracefully where the ranks can.
void RunController::begin_stop() {
  const Duration grace = spec_.run_config.failure_config.stop_grace;
  if (attempt_.ranks.any_reports()) return begin_pause(stop_->reason, now_ + grace, false);
  begin_teardown(grace, stop_->reason);
}

void RunController::begin_pause(const std::string& reason, TimePoint deadline, bool at_checkpoint) {
  change_state(RunTrigger::PauseAsked, reason);
  attempt_.quiesce.emplace(now_, deadline, at_checkpoint);
  send_pause();
}

// Hurry the pause: the ranks should have met at a checkpoint, and now there is no time for that.
void RunController::hurry_pause(TimePoint deadline) {
  if (attempt_.quiesce->escalate(deadline, now_)) send_pause();
}

void RunController::send_pause() {
  attempt_.hosts.for_each_there([this](NodeId node) { actions_.push_back(pause_for(node)); });
}

Pause RunController::pause_for(NodeId node) const {
  const std::string reason = stop_                   ? stop_->reason
                             : attempt_.cause.resize ? attempt_.cause.resize->reason
                                                     : "";
  const Quiesce& quiesce = *attempt_.quiesce;
  return {attempt_.id, node, quiesce.to_send(), quiesce.meeting(), reason, quiesce.at_checkpoint()};
}

void RunController::advance_pausing() {
  if (attempt_.cause.failure) return;
  Quiesce& quiesce = *attempt_.quiesce;
  if (attempt_.ranks.all_ended()) {
    if (!quiesce.finishing() && !attempt_.was_pausing)
      attempt_.cause.resize.reset();  // they had come to their end by themselves
    return change_state(RunTrigger::GroupEnding, "every rank ended");
  }
  const Quiesce::Surroundings around{.resolved_checkpoint = checkpoints_.resolved(),
                                     .committing = checkpoints_.committing(),
                                     .for_good = stop_ || attempt_.was_pausing};
  switch (quiesce.advance(attempt_.ranks, around, now_)) {
    case Quiesce::Next::Wait:
      return;
    case Quiesce::Next::Send:
      return send_pause();
    case Quiesce::Next::AwaitCommit:
      return checkpoints_.await_commit(now_);
    case Quiesce::Next::TimedOut:
      return begin_teardown(kSurvivorGrace, quiesce.finishing()
                                                ? "workers went on after the end was announced"
                                            : checkpoints_.commit_awaited()
                                                ? "their checkpoint was not committed in time"
                                                : "the ranks did not meet at one report in time");
  }
}

}  // namespace train
