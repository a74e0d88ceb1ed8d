#include "launcher/core/group_ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {

constexpr const char* kImmediately = "asked to stop immediately";

// ---- by force

void GroupEnding::fail(AttemptCause::Failure failure) {
  // What follows from a preemption may happen on any node: ranks wait for those that leave.
  const bool preempted = (cause_.resize() && cause_.resize()->preempted) ||
                         (failure.node && run_.nodes.draining(*failure.node));
  if (preempted && failure.kind != FailureKind::Permanent) failure.kind = FailureKind::Preempted;
  const std::string reason = failure.summary();
  if (cause_.fail(std::move(failure))) take_down(reason);
}

void GroupEnding::training_ended(const std::string& reason) {
  if (!group_.ranks.any_other_alive())
    return run_.progress.change_state(RunTrigger::GroupEnding, group_.id, reason);
  // Those that were told to stop by a time have others with them that end by then.
  const Duration left =
      quiesce_ ? std::max(quiesce_->deadline() - now(), kSurvivorGrace) : stop_grace();
  begin_teardown(std::min(left, stop_grace()),
                 fmt::format("all workers of role {} have ended", run_.spec.scaling_config.role));
}

void GroupEnding::give_up(const std::string& reason, bool lacked_room) {
  if (!cause_.failed()) cause_.resize_unless_known({.reason = reason, .lacked_room = lacked_room});
  take_down(reason);
}

void GroupEnding::take_down(const std::string& reason) {
  if (state() != RunState::TearingDown) begin_teardown(kSurvivorGrace, reason);
}

void GroupEnding::stopped_before() {
  group_.was_ending = true;
  if (state() == RunState::Attaching) return;  // the group is taken down once all of it is found
  take_down(cause_.resize() ? cause_.resize()->reason : kStoppedBefore);
}

void GroupEnding::begin_teardown(Duration grace, const std::string& reason) {
  run_.progress.change_state(RunTrigger::GroupEnding, group_.id, reason);
  stop_hosts(grace, reason);
}

void GroupEnding::stop_hosts(Duration grace, const std::string& reason) {
  teardown_.begin(grace, reason, now());
  group_.hosts.for_each_there(
      [this](NodeId node) { run_.progress.add(teardown_.order_for(group_.id, node, now())); });
}

// ---- gracefully

void GroupEnding::stop(bool again, const std::string& reason) {
  switch (state()) {
    case RunState::Attaching:  // stop_found() follows, once all of the group is found
      if (again) begin_teardown(Duration{0}, kImmediately);
      return;
    case RunState::Preparing:
    case RunState::Starting:
      return begin_teardown(stop_grace(), reason);
    case RunState::Running:
      return stop_found();
    case RunState::Pausing:
      if (again) return begin_teardown(Duration{0}, kImmediately);
      return escalate_pause(now() + stop_grace());
    case RunState::TearingDown:
      if (again) stop_hosts(Duration{0}, kImmediately);
      return;
    case RunState::Scheduling:
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      return;
  }
}

void GroupEnding::stop_found() {
  const std::string& reason = run_.progress.stop()->reason;
  if (group_.ranks.any_reports()) return pause(reason, now() + stop_grace(), false);
  begin_teardown(stop_grace(), reason);
}

void GroupEnding::resize(AttemptCause::Resize resize, TimePoint deadline, bool at_checkpoint) {
  const std::string reason = resize.reason;
  const Duration grace =
      resize.preempted ? std::clamp(deadline - now(), Duration{0}, stop_grace()) : kSurvivorGrace;
  cause_.resize(std::move(resize));
  if (group_.ranks.any_reports()) return pause(reason, deadline, at_checkpoint);
  begin_teardown(grace, reason);
}

void GroupEnding::paused_before() {
  const bool attaching = state() == RunState::Attaching;  // continue_pause() follows
  if (!attaching && state() != RunState::Running) return;
  group_.was_pausing = true;
  if (!attaching) continue_pause();
}

void GroupEnding::continue_pause() {
  resize({.reason = "an earlier launcher had asked the ranks to stop"}, now() + stop_grace(),
         false);
}

void GroupEnding::drain(Duration grace, const std::string& text) {
  // Keep some of the grace for the checkpoint's commit and the workers' own end.
  drain_by(now() + grace * 3 / 4, text);
}

void GroupEnding::drain_by(TimePoint deadline, const std::string& text) {
  const AttemptCause::Resize preempted{.reason = text, .preempted = true};
  switch (state()) {
    case RunState::Attaching:  // drain_found() follows, once all of the group is found
      if (!drain_ || deadline < drain_->deadline) drain_ = Drain{deadline, text};
      return;
    case RunState::Preparing:
    case RunState::Starting:
      cause_.resize(preempted);
      return begin_teardown(kSurvivorGrace, text);
    case RunState::Running:
      return resize(preempted, deadline, false);
    case RunState::Pausing:
      if (!run_.progress.stop()) cause_.resize(preempted);
      return escalate_pause(deadline);
    case RunState::TearingDown:
    case RunState::Scheduling:
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      return;
  }
}

void GroupEnding::drain_found() {
  if (drain_ && !group_.ranks.all_ended()) drain_by(drain_->deadline, drain_->text);
}

void GroupEnding::advance_attaching() {
  if (!drain_ || now() < drain_->deadline) return;
  if (!run_.progress.stop()) cause_.resize({.reason = drain_->text, .preempted = true});
  begin_teardown(kSurvivorGrace, drain_->text);
}

void GroupEnding::pause(const std::string& reason, TimePoint deadline, bool at_checkpoint) {
  run_.progress.change_state(RunTrigger::PauseAsked, group_.id, reason);
  quiesce_.emplace(now(), deadline, at_checkpoint);
  send_pause();
}

// Hurry the pause: there is no longer time for the ranks to meet at a checkpoint.
void GroupEnding::escalate_pause(TimePoint deadline) {
  if (quiesce_->escalate(deadline, now())) send_pause();
}

void GroupEnding::send_pause() {
  group_.hosts.for_each_there([this](NodeId node) { run_.progress.add(pause_for(node)); });
}

Pause GroupEnding::pause_for(NodeId node) const {
  const std::string reason = run_.progress.stop() ? run_.progress.stop()->reason
                             : cause_.resize()    ? cause_.resize()->reason
                                                  : "";
  return {group_.id,           node,   quiesce_->to_send(),
          quiesce_->meeting(), reason, quiesce_->at_checkpoint()};
}

void GroupEnding::advance_pausing() {
  if (cause_.failed()) return;
  if (group_.ranks.all_ended()) return training_ended("every rank ended");
  const Quiesce::Surroundings around{.resolved_checkpoint = run_.checkpoints.resolved(),
                                     .committing = run_.checkpoints.committing(),
                                     .for_good = run_.progress.stop() || group_.was_pausing};
  switch (quiesce_->advance(group_.ranks, around, now())) {
    case Quiesce::Next::Wait:
      return;
    case Quiesce::Next::Send:
      return send_pause();
    case Quiesce::Next::AwaitCommit:
      return run_.checkpoints.await_commit(now());
    case Quiesce::Next::TimedOut:
      return begin_teardown(kSurvivorGrace, quiesce_->finishing()
                                                ? "workers went on after the end was announced"
                                            : run_.checkpoints.commit_awaited()
                                                ? "their checkpoint was not committed in time"
                                                : "the ranks did not meet at one report in time");
  }
}

// ---- its end

void GroupEnding::send_again(NodeId node) {
  if (state() == RunState::TearingDown) {
    run_.progress.add(teardown_.order_for(group_.id, node, now()));
  } else if (state() == RunState::Pausing) {
    run_.progress.add(pause_for(node));
  }
}

void GroupEnding::on(const RanksSampled& event) {
  if (state() != RunState::TearingDown) return;
  for (const RankSample& sample : event.ranks) stuck_.sampled(sample, now());
}

// Go on without nodes where a worker cannot be killed. Its supervisor is released like the others,
// and stays, with what it has claimed, until the worker ends.
void GroupEnding::give_up_stuck_nodes() {
  for (auto& stuck : stuck_.find(group_.ranks, run_.nodes, teardown_.kill_at(), now())) {
    run_.progress.note(NoteLevel::Warning, stuck.text);
    group_.hosts.gone(stuck.node);
    group_.ranks.node_lost(stuck.node);
    stuck_nodes_.push_back(std::move(stuck));
  }
}

bool GroupEnding::torn_down() {
  give_up_stuck_nodes();
  if (!group_.hosts.all_gone() && !gives_up_shards()) return false;
  if (run_.checkpoints.committing()) {
    run_.checkpoints.await_commit(now());
    return false;
  }
  const bool told_to_leave = quiesce_ && quiesce_->finishing();
  if (!told_to_leave && group_.ranks.all_ended_by_themselves()) {
    cause_.forget_resize();  // nothing is left to train
  } else if (group_.was_ending) {
    // An earlier launcher knew why it stopped them; we know only that they did not end by
    // themselves.
    cause_.resize_unless_known({.reason = kStoppedBefore});
  }
  return true;
}

// Return whether to give up shards that supervisors may still be storing once the workers are gone:
// a user who asked twice should not wait for storage that hangs.
bool GroupEnding::gives_up_shards() {
  const Teardown::Shards shards =
      teardown_.shards(!group_.ranks.all_ended() || group_.ranks.any_other_alive(), now());
  if (shards != Teardown::Shards::GivenUpNow) return shards == Teardown::Shards::GivenUp;
  run_.progress.note(
      NoteLevel::Warning,
      fmt::format("not waiting for nodes to finish writing to '{}': the run was told to stop "
                  "immediately",
                  run_.spec.run_config.storage_path));
  return true;
}

AttemptEnded GroupEnding::describe() const {
  AttemptEnded ended =
      cause_.describe(group_.id, run_.progress.stop(), group_.ranks, group_.restored);
  if (ended.node) ended.root_node = run_.nodes.name(*ended.node);
  for (const StuckWorkers::Stuck& stuck : stuck_nodes_) {
    ended.stuck.push_back(stuck.node);
    ended.cause += (ended.cause.empty() ? "" : "; ") + stuck.text;
  }
  return ended;
}

std::optional<TimePoint> GroupEnding::next_deadline() const {
  if (state() == RunState::Attaching)
    return drain_ ? std::optional(drain_->deadline) : std::nullopt;
  return state() == RunState::Pausing ? quiesce_->next_deadline(now()) : teardown_.next_deadline();
}

}  // namespace train
