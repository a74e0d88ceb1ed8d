// RunController, its endings: a failure takes the group down, a request stops it in good order.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/run_controller.h"

namespace train {

void RunController::fail(Failure failure) {
  if (attempt_.failure) {
    ++attempt_.collateral;
    return;
  }
  const std::string reason = failure.cause.empty() && failure.rank
                                 ? fmt::format("rank {} failed", failure.rank->value)
                                 : failure.cause;
  attempt_.failure = std::move(failure);
  if (state_ != RunState::TearingDown) begin_teardown(kSurvivorGrace, reason);
}

void RunController::begin_teardown(Duration grace, const std::string& reason) {
  change_state(RunTrigger::GroupEnding, reason);
  stop_hosts(grace, reason);
}

void RunController::stop_hosts(Duration grace, const std::string& reason) {
  attempt_.kill_at = now_ + grace;
  attempt_.stop_reason = reason;
  for_each_reachable_host([&](NodeId node) { actions_.push_back(stop_for(node, grace)); });
}

StopGroup RunController::stop_for(NodeId node, Duration grace) const {
  return {attempt_.id, node, grace, attempt_.stop_reason};
}

void RunController::on(const StopAsked& event) {
  const bool again =
      stop_ && stop_->kind != StopKind::StopCondition && event.kind != StopKind::StopCondition;
  if (stop_ && event.kind == StopKind::StopCondition) return;
  if (!stop_ || stop_->kind == StopKind::StopCondition) stop_ = Stop{event.kind, event.reason};
  switch (state_) {
    case RunState::Preparing:
    case RunState::Starting:
      begin_teardown(spec_.run_config.failure_config.stop_grace, event.reason);
      break;
    case RunState::Running: {
      const bool can_pause =
          std::any_of(attempt_.members.begin(), attempt_.members.end(),
                      [](const Member& m) { return m.alive() && m.joined && m.reported > 0; });
      if (!can_pause) {
        begin_teardown(spec_.run_config.failure_config.stop_grace, event.reason);
        break;
      }
      change_state(RunTrigger::PauseAsked, event.reason);
      attempt_.pause = PauseProgress{.asked_at = now_,
                                     .deadline = now_ + spec_.run_config.failure_config.stop_grace,
                                     .all_reporting_paused = {},
                                     .all_arrived_at = {}};
      send_pause(Pause::Step::Pause);
      break;
    }
    case RunState::Pausing:
      if (again) begin_teardown(Duration{0}, "asked to stop at once");
      break;
    case RunState::TearingDown:
      if (again) stop_hosts(Duration{0}, "asked to stop at once");
      break;
    case RunState::Scheduling:  // advance_scheduling ends the run
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      break;
  }
}

void RunController::send_pause(Pause::Step step) {
  for_each_reachable_host([&](NodeId node) { actions_.push_back(pause_for(node, step)); });
}

Pause RunController::pause_for(NodeId node, Pause::Step step) const {
  return {attempt_.id, node, step, attempt_.pause.ordinal, stop_ ? stop_->reason : ""};
}

// Every rank pauses at its next report; the highest ordinal is where all stop; there they
// checkpoint; then they leave.
void RunController::advance_pausing() {
  if (attempt_.failure) return;
  if (all_members_ended()) return change_state(RunTrigger::GroupEnding, "every rank ended");
  PauseProgress& pause = attempt_.pause;
  if (now_ >= pause.deadline) {
    const bool finishing = pause.step == PauseProgress::Step::Finish;
    return begin_teardown(kSurvivorGrace, finishing
                                              ? "workers went on after the end was announced"
                                              : "the ranks did not meet at one report in time");
  }
  bool reporting_paused = true, all_paused = true, all_arrived = true;
  std::uint64_t highest = 0;
  std::uint64_t common_checkpoint = UINT64_MAX;
  for (const Member& member : attempt_.members) {
    if (!member.alive()) continue;
    all_paused &= member.paused.has_value();  // one that has not joined yet, or whose news is late,
                                              // is waited for a little
    if (!member.joined || member.reported == 0) continue;
    reporting_paused &= member.paused.has_value();
    all_arrived &= member.paused == pause.ordinal;
    highest = std::max(highest, member.paused.value_or(0));
    common_checkpoint = std::min(common_checkpoint, member.checkpoint_index);
  }
  switch (pause.step) {
    case PauseProgress::Step::Gather: {
      if (!reporting_paused) {
        // Training in lockstep: a rank was past its report when the order came, and now waits in a
        // collective for one that is paused. Its next report is where all can meet.
        pause.all_reporting_paused.reset();
        if (now_ < pause.asked_at + kGatherPause) return;
        highest = next_common_report();
      } else {
        if (!pause.all_reporting_paused) pause.all_reporting_paused = now_;
        if (!all_paused && now_ < *pause.all_reporting_paused + kStragglerPause) return;
      }
      pause.step = PauseProgress::Step::Advance;
      pause.ordinal = highest;
      for (Member& member : attempt_.members)
        member.paused.reset();  // each says so again once it is there
      return send_pause(Pause::Step::Advance);
    }
    case PauseProgress::Step::Advance: {
      if (!all_arrived || attempt_.checkpoints.committing()) return;
      if (!pause.all_arrived_at) pause.all_arrived_at = now_;
      // A rank that ended before makes no checkpoint here: the others' never becomes whole.
      const bool hopeless = any_member_ended() && now_ >= *pause.all_arrived_at + kStragglerPause;
      if (attempt_.checkpoints.settled() < common_checkpoint && !hopeless) return;
      pause.step = PauseProgress::Step::Finish;
      pause.deadline = std::min(pause.deadline, now_ + kFinishGrace);
      return send_pause(Pause::Step::Finish);
    }
    case PauseProgress::Step::Finish:
      return;
  }
}

bool RunController::any_member_ended() const {
  return std::any_of(attempt_.members.begin(), attempt_.members.end(),
                     [](const Member& m) { return !m.alive(); });
}

std::uint64_t RunController::next_common_report() const {
  std::uint64_t highest = 0;
  for (const Member& member : attempt_.members) {
    if (!member.alive() || !member.joined || member.reported == 0) continue;
    highest = std::max(highest, member.paused ? *member.paused : member.reported + 1);
  }
  return highest;
}

}  // namespace train
