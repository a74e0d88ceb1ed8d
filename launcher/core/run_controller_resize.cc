// RunController's part for changes of the group: it takes over a group that an earlier launcher
// began, and resizes one because nodes come or are drained.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/run_controller.h"

namespace train {

// ---- an earlier launcher's attempt

// Take over a living attempt. Its supervisors say everything again once they hear of the new
// launcher; the journal only says where to look.
void RunController::adopt(const LivingAttempt& living) {
  state_ = RunState::Attaching;
  attempt_.id = living.id;
  attempt_.placement = living.placement;
  nodes_.placed(living.placement);
  attempt_.restored = living.restored;
  attempt_.adopted = Adopted{.was_ending = living.ending};
  attempt_.was_pausing = living.pausing;
  if (living.stop_condition) stop_ = Stop{StopKind::StopCondition, *living.stop_condition};
  next_attempt_ = std::max(next_attempt_, living.id.next());
  scheduling_.adopt(living.restart_count);
  const int world_size = living.placement.world_size;
  attempt_.ranks = RankTable(living.placement);
  attempt_.collectives = CollectiveTracker(world_size);
  checkpoints_.adopt_attempt(living);
  attempt_.hosts = HostTable::adopted(living.placement);
  for (std::size_t i = 0; i < living.placement.nodes.size(); ++i)
    nodes_.remember_name(living.placement.nodes[i].node, living.node_names[i]);
}

void RunController::advance_attaching() {
  const HostTable::Found found = attempt_.hosts.found();
  if (found == HostTable::Found::NotYet) return;
  if (found == HostTable::Found::NotAllStarted) {
    attempt_.cause.resize = Resize{.reason = kNotStartedBefore};
    return begin_teardown(kSurvivorGrace, attempt_.cause.resize->reason);
  }
  if (attempt_.was_ending()) return begin_teardown(kSurvivorGrace, kStoppedBefore);
  if (!attempt_.was_pausing) {
    change_state(RunTrigger::GroupFound, "");
    release_collectives(std::exchange(attempt_.adopted->held_back, {}));
    if (stop_) begin_stop();
    return;
  }
  begin_resize({.reason = "an earlier launcher had asked the ranks to stop"},
               now_ + spec_.run_config.failure_config.stop_grace, false);
  release_collectives(std::exchange(attempt_.adopted->held_back, {}));
}

// The workers were stopped by an earlier launcher that died before its journal recorded it, or by a
// supervisor that it left alone too long.
void RunController::stopped_before() {
  attempt_.adopted->was_ending = true;
  if (state_ == RunState::Attaching) return;  // advance_attaching comes to it
  begin_teardown(kSurvivorGrace,
                 attempt_.cause.resize ? attempt_.cause.resize->reason : kStoppedBefore);
}

// ---- resizing

// Resize gracefully where the ranks can: they meet, hand over a checkpoint, and leave.
void RunController::begin_resize(Resize resize, TimePoint deadline, bool at_checkpoint) {
  const std::string reason = resize.reason;
  attempt_.cause.resize = std::move(resize);
  if (attempt_.ranks.any_reports()) return begin_pause(reason, deadline, at_checkpoint);
  begin_teardown(kSurvivorGrace, reason);
}

void RunController::consider_growth() {
  const WorkerCount& wanted = spec_.scaling_config.num_workers;
  if (!wanted.elastic() || attempt_.placement.world_size >= wanted.max) return;
  const auto capacity = [this] {
    readmit_nodes();
    return nodes_.capacity(spec_.scaling_config, policy_);
  };
  const std::optional<int> size = growth_.advance(attempt_.ranks, capacity, now_);
  if (!size) return;
  begin_resize({.reason = fmt::format("there is room for {} workers instead of {}", *size,
                                      attempt_.placement.world_size)},
               TimePoint::max(), true);
}

void RunController::on(const NodeDrain& event) {
  if (!nodes_.drain(event.node)) return;
  growth_.capacity_changed();
  release_standby(event.node);
  const std::string text =
      fmt::format("node {} is being drained: {}", nodes_.name(event.node), event.reason);
  note(NoteLevel::Warning, text);
  if (!facts(state_).has_attempt || !attempt_.hosts.has(event.node) ||
      attempt_.hosts.is_gone(event.node))
    return;
  const Resize resize{.reason = text, .preempted = true};
  // Some of the grace is left for what comes after: the checkpoint's commit and the workers' own
  // end.
  const TimePoint deadline = now_ + event.grace * 3 / 4;
  switch (state_) {
    case RunState::Attaching:
    case RunState::Preparing:
    case RunState::Starting:
      attempt_.cause.resize = resize;
      return begin_teardown(kSurvivorGrace, text);
    case RunState::Running:
      return begin_resize(resize, deadline, false);
    case RunState::Pausing:
      if (!stop_) attempt_.cause.resize = resize;
      return hurry_pause(deadline);
    default:
      return;
  }
}

}  // namespace train
