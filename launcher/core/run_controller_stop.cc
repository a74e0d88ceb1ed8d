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
  const bool drained = failure.node && draining_.count(*failure.node) != 0;
  if (drained && failure.kind != FailureKind::Permanent) failure.kind = FailureKind::Preempted;
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
  const bool was_offered =
      attempt_.commit && attempt_.commit->wait_said_in == RunState::TearingDown;
  if (again || (was_offered && event.kind == StopKind::Interrupt)) attempt_.hurried = true;
  switch (state_) {
    case RunState::Attaching:  // advance_attaching comes back to it
      if (again) begin_teardown(Duration{0}, "asked to stop at once");
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
        begin_teardown(Duration{0}, "asked to stop at once");
      else
        hurry_pause(now_ + spec_.run_config.failure_config.stop_grace);
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

// In good order where the ranks can.
void RunController::begin_stop() {
  const Duration grace = spec_.run_config.failure_config.stop_grace;
  if (can_pause()) return begin_pause(stop_->reason, now_ + grace, false);
  begin_teardown(grace, stop_->reason);
}

bool RunController::can_pause() const {
  return std::any_of(attempt_.members.begin(), attempt_.members.end(),
                     [](const Member& m) { return m.alive() && m.joined && m.reported > 0; });
}

void RunController::begin_pause(const std::string& reason, TimePoint deadline, bool at_checkpoint) {
  change_state(RunTrigger::PauseAsked, reason);
  attempt_.pause = PauseProgress{.asked = true,
                                 .asked_at = now_,
                                 .deadline = deadline,
                                 .at_checkpoint = at_checkpoint,
                                 .first_paused_at = {},
                                 .all_reporting_paused = {},
                                 .all_arrived_at = {}};
  send_pause(Pause::Step::Pause);
}

// The ranks were to meet at a checkpoint, and now there is no time for that.
void RunController::hurry_pause(TimePoint deadline) {
  PauseProgress& pause = attempt_.pause;
  pause.deadline = std::min(pause.deadline, deadline);
  if (!std::exchange(pause.at_checkpoint, false)) return;
  if (pause.step == PauseProgress::Step::Finish) return;
  pause.step = PauseProgress::Step::Gather;
  pause.asked_at = now_;
  send_pause(Pause::Step::Pause);
}

void RunController::send_pause(Pause::Step step) {
  for_each_reachable_host([&](NodeId node) { actions_.push_back(pause_for(node, step)); });
}

Pause RunController::pause_for(NodeId node, Pause::Step step) const {
  const std::string reason = stop_ ? stop_->reason : attempt_.reform ? attempt_.reform->reason : "";
  return {attempt_.id, node, step, attempt_.pause.ordinal, reason, attempt_.pause.at_checkpoint};
}

// Every rank pauses at its next report; the highest ordinal is where all stop; there they
// checkpoint; then they leave.
void RunController::advance_pausing() {
  if (attempt_.failure) return;
  PauseProgress& pause = attempt_.pause;
  if (all_members_ended()) {
    if (pause.step != PauseProgress::Step::Finish && !attempt_.was_pausing)
      attempt_.reform.reset();  // they had come to their end by themselves
    return change_state(RunTrigger::GroupEnding, "every rank ended");
  }
  if (now_ >= pause.deadline) {
    const bool finishing = pause.step == PauseProgress::Step::Finish;
    const bool met = attempt_.commit && attempt_.commit->awaited_since;
    return begin_teardown(kSurvivorGrace, finishing ? "workers went on after the end was announced"
                                          : met     ? "their checkpoint was not committed in time"
                                                : "the ranks did not meet at one report in time");
  }
  if (pause.step == PauseProgress::Step::Finish) return;
  if (pause.step == PauseProgress::Step::Advance && earliest_meeting() > pause.ordinal)
    return advance_to(earliest_meeting());
  if (pause.first_paused_at && somebody_is_on_the_way()) {
    // The news of one rank among thousands: the others need not be looked at.
    if (pause.step == PauseProgress::Step::Advance) return;
    const auto until = gather_until();
    if (!until || now_ < *until) return pause.all_reporting_paused.reset();
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
    all_arrived &= pause.at_checkpoint ? member.paused.has_value() : member.paused == pause.ordinal;
    highest = std::max(highest, member.paused.value_or(0));
    if (member.paused && !pause.first_paused_at) pause.first_paused_at = now_;
    common_checkpoint = std::min(common_checkpoint, member.checkpoint_index);
  }
  switch (pause.step) {
    case PauseProgress::Step::Gather: {
      if (!reporting_paused) {
        // Training in lockstep: a rank was past its report when the order came, and now waits in a
        // collective for one that is paused. Its next report is where all can meet.
        pause.all_reporting_paused.reset();
        const auto until = gather_until();
        if (!until || now_ < *until) return;
        highest = next_common_report();
      } else {
        if (!pause.all_reporting_paused) pause.all_reporting_paused = now_;
        if (!all_paused && now_ < *pause.all_reporting_paused + kStragglerPause) return;
      }
      pause.step = PauseProgress::Step::Advance;
      return advance_to(std::max(highest, earliest_meeting()));
    }
    case PauseProgress::Step::Advance: {
      if (all_arrived && pause.at_checkpoint && !all_paused_at(highest)) return advance_to(highest);
      if (all_arrived && pause.at_checkpoint) pause.ordinal = highest;
      if (all_arrived && attempt_.checkpoints.committing()) return await_commit();
      if (!all_arrived) return;
      if (!pause.all_arrived_at) pause.all_arrived_at = now_;
      // A rank that ended before makes no checkpoint here: the others' never becomes whole.
      const bool hopeless = any_member_ended() && now_ >= *pause.all_arrived_at + kStragglerPause;
      if (attempt_.checkpoints.settled() < common_checkpoint && !hopeless) return;
      pause.step = PauseProgress::Step::Finish;
      if (attempt_.reform) attempt_.reform->asked = true;
      pause.deadline = std::min(pause.deadline, now_ + kFinishGrace);
      return send_pause(Pause::Step::Finish);
    }
    case PauseProgress::Step::Finish:
      return;
  }
}

bool RunController::somebody_is_on_the_way() const {
  const PauseProgress& pause = attempt_.pause;
  const bool anywhere = pause.step == PauseProgress::Step::Gather || pause.at_checkpoint;
  return std::any_of(attempt_.members.begin(), attempt_.members.end(), [&](const Member& m) {
    if (!m.alive() || !m.joined || m.reported == 0) return false;
    return anywhere ? !m.paused : m.paused != pause.ordinal;
  });
}

// Each says so again once it is there; those that an earlier launcher had told are there already.
void RunController::advance_to(std::uint64_t ordinal) {
  attempt_.pause.ordinal = ordinal;
  attempt_.pause.all_arrived_at.reset();
  for (Member& member : attempt_.members) {
    if (!member.arrived || member.paused != ordinal) member.paused.reset();
  }
  send_pause(Pause::Step::Advance);
}

bool RunController::all_paused_at(std::uint64_t ordinal) const {
  return std::all_of(attempt_.members.begin(), attempt_.members.end(), [&](const Member& m) {
    return !m.alive() || !m.joined || m.reported == 0 || m.paused == ordinal;
  });
}

// Until when ranks that report are waited for before one of them is taken to wait for another.
std::optional<TimePoint> RunController::gather_until() const {
  const PauseProgress& pause = attempt_.pause;
  if (!pause.at_checkpoint) return pause.asked_at + kGatherPause;
  if (!pause.first_paused_at) return std::nullopt;
  return *pause.first_paused_at + kGatherPause;
}

// A rank that came to its end by itself does not wait for the others. Who was asked to stop, stops
// where that rank did. A group that is to form anew could hand over no whole checkpoint any more,
// and would do everything since its last one again: it goes on to its own end.
std::uint64_t RunController::earliest_meeting() const {
  if (!attempt_.came_to_its_end_at) return 0;
  return stop_ || attempt_.was_pausing ? *attempt_.came_to_its_end_at : UINT64_MAX;
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
