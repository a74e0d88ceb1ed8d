// RunController's part for its nodes: they come, go, and come back with or without a supervisor,
// and those that fail are quarantined.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/run_controller.h"

namespace train {

// A link that breaks loses what was sent over it. What lives there according to the daemon shows
// what did not arrive: an order to prepare, an order to release, or the news that a supervisor has
// ended.
void RunController::on(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  nodes_.up(event);
  growth_.capacity_changed();
  bool standby_is_there = false;
  for (Attempt attempt : event.attempts) {
    if (stands_by(attempt, node)) {
      standby_is_there = true;
      continue;
    }
    const bool ours = concerns(attempt, node) && !attempt_.hosts.is_lost(node);
    if (!ours) actions_.push_back(Release{attempt, node});
    if (attempt < next_attempt_) continue;
    // An earlier launcher died before its journal recorded the attempt: its number is taken all the
    // same.
    for (const NodeId waiting : standbys_.nodes()) release_standby(waiting);
    next_attempt_ = attempt.next();
  }
  if (!standby_is_there && standbys_.waiting_on(node) > 0) ask_standby(node);
  HostTable& hosts = attempt_.hosts;
  if (!facts(state_).has_attempt || !hosts.has(node)) return;
  if (std::count(event.attempts.begin(), event.attempts.end(), attempt_.id) != 0)
    return;                   // it will say so itself
  if (hosts.is_gone(node)) {  // with its workers, before; and now its supervisor is, too
    hosts.lost(node);
    return validations_.lost(node);
  }
  if (hosts.is_prepared(node)) {
    host_lost(node,
              fmt::format("the supervisor on {} ended while its node was out of reach",
                          nodes_.name(node)),
              FailureKind::Worker);
  } else if (state_ == RunState::Preparing) {
    actions_.push_back(prepare_for(hosts.placed(node)));
  } else {
    hosts.gone(node);  // nothing was started there, and nothing will be
  }
}

void RunController::on(const SupervisorAttached& event) {
  if (stands_by(event.attempt, event.node)) {
    actions_.push_back(StandBy{event.attempt, event.node, standbys_.waiting_on(event.node)});
    return;
  }
  if (!concerns(event.attempt, event.node) || attempt_.hosts.is_lost(event.node)) {
    actions_.push_back(Release{event.attempt, event.node});
    return;
  }
  attempt_.hosts.attached(event.node, event.has_workers);
  for (const RankState& rank : event.ranks) {
    RankTable::Entry* entry = rank_of(event.attempt, rank.rank);
    if (entry == nullptr) continue;
    entry->joined |= rank.joined;
    entry->reported = std::max(entry->reported, rank.reported);
  }
  perform(checkpoints_.resolved_before(event.resolved_checkpoint));
  if (!attempt_.hosts.is_gone(event.node)) send_again(event.node);
  validate_again(event.node);
}

// Send the orders again. Every order may be given twice: supervisors and workers know what they
// have already done.
void RunController::send_again(NodeId node) {
  const HostTable& hosts = attempt_.hosts;
  if (state_ == RunState::TearingDown) {
    actions_.push_back(attempt_.teardown.order_for(attempt_.id, node, now_));
    return;
  }
  if (state_ == RunState::Preparing && !hosts.is_prepared(node))
    actions_.push_back(prepare_for(hosts.placed(node)));
  if (const Start* order = hosts.unanswered_order(node)) actions_.push_back(*order);
  if (state_ == RunState::Pausing) actions_.push_back(pause_for(node));
}

void RunController::on(const NodeDown& event) {
  const std::string name = nodes_.name(event.node);
  if (facts(state_).has_attempt && attempt_.hosts.has(event.node) &&
      !attempt_.hosts.is_lost(event.node)) {
    host_lost(event.node, fmt::format("node {} is lost: {}", name, event.reason),
              FailureKind::NodeLost);
  } else {
    note(NoteLevel::Warning, fmt::format("node {} is lost: {}", name, event.reason));
  }
  nodes_.down(event.node);
  standbys_.forget(event.node);
  growth_.capacity_changed();
}

void RunController::on(const SupervisorLost& event) {
  if (event.standby) {  // whatever is asked for there now begins without them
    if (event.attempt == next_attempt_) standbys_.forget(event.node);
    return;
  }
  if (!concerns(event.attempt, event.node)) return;
  host_lost(event.node,
            fmt::format("the supervisor on {} ended: {}", nodes_.name(event.node), event.reason),
            FailureKind::Worker);
}

void RunController::host_lost(NodeId node, const std::string& reason, FailureKind kind) {
  validations_.lost(node);
  const bool was_gone = attempt_.hosts.is_gone(node);
  attempt_.hosts.lost(node);
  if (was_gone) return;
  const std::vector<Rank> ranks = attempt_.ranks.node_lost(node);
  for (const Rank rank : ranks) release_collectives(attempt_.collectives.rank_ended(rank));
  // The supervisor ended while no launcher was there, as it does when none comes back in time.
  if (attempt_.adopted && !attempt_.hosts.is_attached(node) && kind == FailureKind::Worker) {
    if (!attempt_.cause.failure && !attempt_.cause.resize)
      attempt_.cause.resize = Resize{.reason = reason};
    if (state_ != RunState::TearingDown) begin_teardown(kSurvivorGrace, reason);
    return;
  }
  const std::optional<Rank> first = ranks.empty() ? std::nullopt : std::optional(ranks.front());
  fail({.kind = kind, .cause = reason, .rank = first, .end = {}, .node = node, .start_error = {}});
}

// ---- nodes that fail

bool RunController::may_be_used(NodeId node) {
  readmit_nodes();
  const std::vector<NodeCapacity> usable = nodes_.usable(spec_.scaling_config, policy_);
  return std::any_of(usable.begin(), usable.end(),
                     [node](const NodeCapacity& capacity) { return capacity.node == node; });
}

// Readmit nodes whose cooldown is over: there is more room.
void RunController::readmit_nodes() {
  if (policy_.readmit(now_)) growth_.capacity_changed();
}

}  // namespace train
