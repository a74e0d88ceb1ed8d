// RunController, its nodes: they come, go, and come back with or without a supervisor; those that
// fail are quarantined.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/run_controller.h"

namespace train {

// A link that breaks loses what was sent over it. What the daemon says lives there shows what did
// not arrive: an order to prepare, an order to release, or the news that a supervisor has ended.
void RunController::on(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  nodes_.up(event);
  growth_.room_changed();
  bool standby_is_there = false;
  for (Attempt attempt : event.attempts) {
    if (stands_by(attempt, node)) {
      standby_is_there = true;
      continue;
    }
    const bool ours =
        current(attempt) && attempt_.hosts.count(node) != 0 && !attempt_.hosts[node].lost;
    if (!ours) actions_.push_back(Release{attempt, node});
    if (attempt < next_attempt_) continue;
    // An earlier launcher died before its journal knew of it: the number is taken all the same.
    for (const NodeId waiting : standbys_.nodes()) release_standby(waiting);
    next_attempt_ = attempt.next();
  }
  if (!standby_is_there && standbys_.waiting_on(node) > 0) ask_standby(node);
  const auto found = attempt_.hosts.find(node);
  if (!facts(state_).has_attempt || found == attempt_.hosts.end()) return;
  if (std::count(event.attempts.begin(), event.attempts.end(), attempt_.id) != 0)
    return;  // it will say so itself
  Host& host = found->second;
  if (host.gone) {  // with its workers, before; and now its supervisor is, too
    host.lost = true;
    return validations_.lost(node);
  }
  if (host.prepared) {
    host_lost(node,
              fmt::format("the supervisor on {} ended while its node was out of reach",
                          nodes_.name(node)),
              FailureKind::Worker);
  } else if (state_ == RunState::Preparing) {
    actions_.push_back(prepare_for(host.placed));
  } else {
    host.gone = true;  // nothing was started there, and nothing will be
  }
}

void RunController::on(const SupervisorAttached& event) {
  if (stands_by(event.attempt, event.node)) {
    actions_.push_back(StandBy{event.attempt, event.node, standbys_.waiting_on(event.node)});
    return;
  }
  const auto host = attempt_.hosts.find(event.node);
  if (!current(event.attempt) || host == attempt_.hosts.end() || host->second.lost) {
    actions_.push_back(Release{event.attempt, event.node});
    return;
  }
  host->second.attached = true;
  host->second.has_workers = event.has_workers;
  for (const RankState& rank : event.ranks) {
    RankTable::Entry* entry = rank_of(event.attempt, rank.rank);
    if (entry == nullptr) continue;
    entry->joined |= rank.joined;
    entry->reported = std::max(entry->reported, rank.reported);
  }
  perform(checkpoints_.settled_before(event.settled_checkpoint));
  if (!host->second.gone) send_again(host->second);
  validate_again(event.node);
}

// Every order may be given twice: supervisors and workers know what they have done already.
void RunController::send_again(Host& host) {
  const NodeId node = host.placed.node;
  if (state_ == RunState::TearingDown) {
    actions_.push_back(stop_for(node, std::max(Duration{0}, attempt_.kill_at - now_)));
    return;
  }
  if (state_ == RunState::Preparing && !host.prepared) actions_.push_back(prepare_for(host.placed));
  if (host.start && !host.started) actions_.push_back(*host.start);
  if (state_ == RunState::Pausing) actions_.push_back(pause_for(node));
}

void RunController::on(const NodeDown& event) {
  const std::string name = nodes_.name(event.node);
  if (facts(state_).has_attempt && attempt_.hosts.count(event.node) != 0 &&
      !attempt_.hosts[event.node].lost) {
    host_lost(event.node, fmt::format("node {} is lost: {}", name, event.reason),
              FailureKind::NodeLost);
  } else {
    note(NoteLevel::Warning, fmt::format("node {} is lost: {}", name, event.reason));
  }
  nodes_.down(event.node);
  standbys_.forget(event.node);
  growth_.room_changed();
}

void RunController::on(const SupervisorLost& event) {
  if (event.standby) {  // whatever is asked for there now begins without them
    if (event.attempt == next_attempt_) standbys_.forget(event.node);
    return;
  }
  if (!current(event.attempt) || attempt_.hosts.count(event.node) == 0) return;
  host_lost(event.node,
            fmt::format("the supervisor on {} ended: {}", nodes_.name(event.node), event.reason),
            FailureKind::Worker);
}

void RunController::host_lost(NodeId node, const std::string& reason, FailureKind kind) {
  Host& host = attempt_.hosts[node];
  validations_.lost(node);
  if (host.gone) {
    host.lost = true;
    return;
  }
  host.gone = host.lost = true;
  const std::vector<Rank> ranks = attempt_.ranks.node_lost(node);
  for (const Rank rank : ranks) release_collectives(attempt_.collectives.rank_ended(rank));
  // It ended while no launcher was there, as it does when none comes back in time.
  if (attempt_.adopted && !host.attached && kind == FailureKind::Worker) {
    if (!attempt_.failure && !attempt_.reform) attempt_.reform = Reform{.reason = reason};
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

// Their cooldown is over: there is more room.
void RunController::readmit_nodes() {
  if (policy_.readmit(now_)) growth_.room_changed();
}

}  // namespace train
