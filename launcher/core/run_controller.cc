#include "launcher/core/run_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {

RunController::RunController(const JobSpec& spec, RunStart start, TimePoint now)
    : spec_(spec),
      finished_before_(start.finished),
      now_(now),
      nodes_(start.expected_nodes),
      policy_(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic(),
              start.expected_nodes),
      scheduling_(now, start.restarts),
      standbys_(spec.scaling_config.standby_workers),
      next_attempt_(start.first_attempt),
      checkpoints_(spec.run_config, std::move(start.checkpoint), std::move(start.older),
                   start.last_checkpoint_number),
      validations_(spec.run_config.checkpoint_config.validation.every, start.unvalidated) {
  nodes_.placed(std::move(start.placed));
  policy_.recall(std::move(start.failures), now);
  if (start.living) adopt(*start.living);
}

std::vector<RunAction> RunController::handle(const RunEvent& event, TimePoint now) {
  now_ = now;
  actions_.clear();
  if (!done()) {
    std::visit([this](const auto& e) { on(e); }, event);
    advance();
  }
  return std::move(actions_);
}

// ---- starting

void RunController::advance_scheduling() {
  if (stop_)
    return end_run(
        stop_->kind == StopKind::StopCondition ? RunTrigger::EndedWell : RunTrigger::EndedByRequest,
        stop_->reason);
  if (scheduling_.backing_off(now_)) return;
  if (finished_before_) {
    // Tell its last supervisors that they may go.
    if (!nodes_.may_grow() || scheduling_.nodes_waited_for(now_))
      end_run(RunTrigger::EndedWell, "it had finished under an earlier launcher");
    return;
  }
  if (!scheduling_.looks(now_, nodes_.may_grow())) return;
  readmit_nodes();
  Placement placement = nodes_.placement(spec_.scaling_config, policy_);
  if (placement.world_size > 0) return begin_attempt(std::move(placement));
  if (placement.never) return end_run(RunTrigger::GaveUp, placement.reason);
  if (scheduling_.says_waiting(now_)) note(NoteLevel::Info, "waiting: " + placement.reason);
}

void RunController::begin_attempt(Placement placement) {
  attempt_ = AttemptState{};
  attempt_.id = next_attempt_;
  next_attempt_ = next_attempt_.next();
  attempt_.placement = placement;
  nodes_.placed(placement);
  attempt_.ranks = RankTable(placement);
  attempt_.collectives = CollectiveTracker(placement.world_size);
  checkpoints_.begin_attempt(attempt_.id, placement.world_size);
  attempt_.restored = checkpoints_.newest();
  scheduling_.placed();
  growth_.attempt_began();
  change_state(
      RunTrigger::NodesGranted,
      fmt::format("attempt {}: {} workers on {} {}", attempt_.id.value, placement.world_size,
                  placement.nodes.size(), placement.nodes.size() == 1 ? "node" : "nodes"));
  attempt_.hosts = HostTable(placement);
  AttemptBegun begun{attempt_.id, placement, {}, attempt_.restored, scheduling_.restarts()};
  for (const PlacedNode& placed : placement.nodes)
    begun.node_names.push_back(nodes_.name(placed.node));
  actions_.push_back(std::move(begun));
  for (const PlacedNode& placed : placement.nodes) actions_.push_back(prepare_for(placed));
  for (const NodeId node : standbys_.attempt_began()) {
    if (!attempt_.hosts.has(node)) actions_.push_back(Release{attempt_.id, node});
  }
}

Prepare RunController::prepare_for(const PlacedNode& placed) const {
  return {attempt_.id, placed, placed.node_rank == NodeRank{0} && spec_.backend == Backend::Torch};
}

void RunController::on(const AttemptPrepared& event) {
  if (!concerns(event.attempt, event.node)) return;
  attempt_.hosts.prepared(event.node);
  if (attempt_.hosts.placed(event.node).node_rank == NodeRank{0})
    attempt_.master_port = event.master_port;
}

void RunController::advance_preparing() {
  if (!attempt_.hosts.all_prepared()) return;
  change_state(RunTrigger::AllPrepared, "");
  const PlacedNode& first = attempt_.placement.nodes.front();
  const std::string master_addr =
      attempt_.placement.nodes.size() == 1 ? "127.0.0.1" : nodes_.address(first.node);
  const SharedValue<Placement> placement(attempt_.placement);
  for (const PlacedNode& placed : attempt_.placement.nodes) {
    Start start{attempt_.id,
                placed,
                placement,
                master_addr,
                attempt_.master_port,
                checkpoints_.newest(),
                scheduling_.restarts()};
    attempt_.hosts.ordered(placed.node, start);
    actions_.push_back(std::move(start));
  }
}

void RunController::on(const AttemptStarted& event) {
  if (!concerns(event.attempt, event.node)) return;
  if (attempt_.hosts.started(event.node)) attempt_.from_standby += event.from_standby;
  if (state_ == RunState::Starting && attempt_.hosts.all_started())
    change_state(RunTrigger::AllStarted, "");
}

void RunController::on(const StartRefused& event) {
  if (!concerns(event.attempt, event.node) || attempt_.hosts.is_gone(event.node)) return;
  const bool permanent = event.error.code == Errc::NotFound ||
                         event.error.code == Errc::Permission ||
                         event.error.code == Errc::InvalidArgument;
  const std::string hint = event.error.hint.empty() ? "" : fmt::format(" ({})", event.error.hint);
  attempt_.hosts.gone(event.node);
  attempt_.ranks.node_lost(event.node);
  // Whatever the reason was under the launcher that asked, the next attempt finds out for this one.
  if (attempt_.adopted) {
    if (!attempt_.cause.resize) attempt_.cause.resize = Resize{.reason = kNotStartedBefore};
    if (state_ != RunState::TearingDown) begin_teardown(kSurvivorGrace, kNotStartedBefore);
    return;
  }
  if (give_up_restored(event.error)) {  // for the one before: no failure is counted
    if (!attempt_.cause.resize) attempt_.cause.resize = Resize{.reason = event.error.message};
    if (state_ != RunState::TearingDown) begin_teardown(kSurvivorGrace, event.error.message);
    return;
  }
  // Before the node is prepared, the refusal is about the node, not about a rank.
  std::optional<Rank> rank;
  if (attempt_.hosts.is_prepared(event.node)) rank = event.rank;
  const std::string what =
      rank ? fmt::format("rank {} could not be started on {}", rank->value, nodes_.name(event.node))
           : fmt::format("no worker could be started on {}", nodes_.name(event.node));
  fail({.kind = permanent ? FailureKind::Permanent : FailureKind::Start,
        .cause = fmt::format("{}: {}{}", what, event.error.message, hint),
        .rank = rank,
        .end = {},
        .node = event.node,
        .start_error = event.error});
}

// ---- running

void RunController::on(const RankJoined& event) {
  if (RankTable::Entry* rank = rank_of(event.attempt, event.rank)) rank->joined = true;
}

void RunController::on(const RankReported& event) {
  RankTable::Entry* rank = rank_of(event.attempt, event.rank);
  if (rank == nullptr) return;
  attempt_.progressed = true;
  rank->reported = std::max(rank->reported, event.report_seq);
}

void RunController::on(const RankPaused& event) {
  RankTable::Entry* rank = rank_of(event.attempt, event.rank);
  if (rank == nullptr) return;
  rank->reported = std::max(rank->reported, event.report_seq);
  // A pause that is said again over a new link is from before the ranks were told how far to go.
  const bool advancing =
      state_ == RunState::Pausing && attempt_.quiesce->to_send() == Pause::Step::Advance;
  if (advancing && !event.arrived) return;
  rank->paused = event.report_seq;
  rank->checkpoint_seq = event.checkpoint_seq;
  rank->arrived = event.arrived;
  if (state_ != RunState::Running) return;
  // An earlier launcher asked for the pause and died before its journal recorded that.
  attempt_.was_pausing = true;
  begin_resize({.reason = "an earlier launcher had asked the ranks to stop"},
               now_ + spec_.run_config.failure_config.stop_grace, false);
}

void RunController::on(const RankExited& event) {
  RankTable::Entry* rank = rank_of(event.attempt, event.rank);
  if (rank == nullptr || !rank->alive()) return;
  attempt_.ranks.ended(*rank, event.end);
  if (attempt_.cause.failure) ++attempt_.cause.collateral;  // also where we had to stop it
  // A rank that waits for this one in a collective call has to be stopped as well, and must not
  // fail first.
  const bool by_us_now = state_ == RunState::TearingDown;
  if (event.end.stop_requested && attempt_.adopted && !by_us_now) return stopped_before();
  release_collectives(attempt_.collectives.rank_ended(event.rank));
  // A supervisor stops its workers unasked when no launcher came back in time: that is no good end.
  // Where there was no launcher, it is no failure either.
  const bool stopped_by_us = event.end.stop_requested && (by_us_now || attempt_.was_ending());
  if (stopped_by_us || (event.end.clean() && !event.end.stop_requested)) return;
  // For a group that an earlier launcher was stopping, we have still to find out why.
  const bool ending = state_ == RunState::TearingDown && !attempt_.was_ending();
  if (attempt_.cause.failure || ending) return;
  const bool at_start = !attempt_.progressed && rank->joined;
  fail({.kind = at_start ? FailureKind::Start : FailureKind::Worker,
        .cause = "",  // how it ended says it; the words are launcher/report's
        .rank = event.rank,
        .end = event.end,
        .node = rank->node,
        .start_error = {}});
}

void RunController::on(const CollectiveJoined& event) {
  if (rank_of(event.attempt, event.rank) == nullptr) return;
  if (auto release =
          attempt_.collectives.join(event.rank, event.sequence, event.name, event.data, now_)) {
    if (release->error.empty()) attempt_.progressed = true;
    release_collectives({*release});
  }
}

void RunController::on(const CollectiveResolved& event) {
  if (!current(event.attempt)) return;
  if (const auto release =
          attempt_.collectives.answered({event.sequence, event.parts, event.error}))
    release_collectives({*release});
}

void RunController::release_collectives(const std::vector<CollectiveRelease>& releases) {
  if (state_ == RunState::Attaching) {  // whether the group goes on is not known yet
    auto& held_back = attempt_.adopted->held_back;
    held_back.insert(held_back.end(), releases.begin(), releases.end());
    return;
  }
  for (const CollectiveRelease& release : releases) {
    const auto send = [&](NodeId node) {
      actions_.push_back(
          SendCollective{attempt_.id, node, release.sequence, release.parts, release.error});
    };
    if (release.only_for)
      send(attempt_.ranks.find(*release.only_for)->node);
    else
      attempt_.hosts.for_each_there(send);
  }
}

void RunController::on(const NodeGroupGone& event) {
  if (concerns(event.attempt, event.node)) attempt_.hosts.gone(event.node);
}

void RunController::advance_running() {
  if (attempt_.cause.failure) return;
  if (attempt_.ranks.all_ended())
    return change_state(RunTrigger::GroupEnding, "every rank ended with 0");
  readmit_nodes();
  consider_standbys();
  advance_validations();
  consider_growth();
}

RankTable::Entry* RunController::rank_of(Attempt attempt, Rank rank) {
  return current(attempt) ? attempt_.ranks.find(rank) : nullptr;
}

std::optional<NodeId> RunController::node_of(Attempt attempt, Rank rank) const {
  const RankTable::Entry* entry = current(attempt) ? attempt_.ranks.find(rank) : nullptr;
  return entry == nullptr ? std::nullopt : std::optional(entry->node);
}

// ---- ending

void RunController::advance_teardown() {
  if (!attempt_.hosts.all_gone() && !gives_up_shards()) return;
  if (checkpoints_.committing()) return checkpoints_.await_commit(now_);
  find_resize();
  if (waits_for_validations()) return;
  conclude_attempt();
}

void RunController::find_resize() {
  // An earlier launcher knew why it stopped them; we see only that they did not end by themselves.
  const bool by_themselves = attempt_.ranks.all_ended_by_themselves();
  if (attempt_.was_ending() && !attempt_.cause.resize && (attempt_.was_pausing || !by_themselves))
    attempt_.cause.resize = Resize{.reason = kStoppedBefore};
}

/// Return whether the attempt ends well, by what its workers did and what was asked for so far.
bool RunController::ends_well() const {
  if (stop_) return stop_->kind == StopKind::StopCondition;
  return !attempt_.cause.failure && !attempt_.cause.resize;
}

void RunController::conclude_attempt() {
  tell_of_useless_standbys();
  validations_.lost();
  attempt_.hosts.for_each_supervised([this](NodeId node) {
    actions_.push_back(Release{attempt_.id, node});
  });
  AttemptEnded ended{.attempt = attempt_.id,
                     .cause = stop_                   ? stop_->reason
                              : attempt_.cause.resize ? attempt_.cause.resize->reason
                                                      : "every rank ended with 0",
                     .failed = false,
                     .resized = attempt_.cause.resize && !attempt_.cause.failure && !stop_,
                     .failure = {},
                     .root_rank = {},
                     .root_end = {},
                     .root_node = "",
                     .start_error = {},
                     .collateral = attempt_.cause.collateral};
  if (attempt_.cause.failure) {
    ended.cause = attempt_.cause.failure->cause;
    ended.failed = true;
    ended.failure = attempt_.cause.failure->kind;
    ended.node = attempt_.cause.failure->node;
    ended.place = place_of(*attempt_.cause.failure);
    ended.root_rank = attempt_.cause.failure->rank;
    ended.root_end = attempt_.cause.failure->end;
    if (attempt_.cause.failure->node) ended.root_node = nodes_.name(*attempt_.cause.failure->node);
    ended.start_error = attempt_.cause.failure->start_error;
  } else if (attempt_.cause.resize && attempt_.cause.resize->preempted) {
    ended.failure = FailureKind::Preempted;
  }
  const std::optional<FailurePlace> failure_place = ended.place;
  actions_.push_back(std::move(ended));
  if (stop_ && stop_->kind != StopKind::StopCondition)
    return end_run(RunTrigger::EndedByRequest, stop_->reason);
  if (ends_well()) return end_run(RunTrigger::EndedWell, stop_ ? stop_->reason : "");
  FailureDecision decision{.restart = true, .delay = {}, .reason = "no failure is counted"};
  if (attempt_.cause.failure) {
    const Failure& failure = *attempt_.cause.failure;
    if (failure.node && policy_.node_failed(*failure.node, now_)) {
      note(NoteLevel::Warning,
           fmt::format("node {} failed {} times in a row without a newer checkpoint: it is "
                       "quarantined for {}, as long as there is room elsewhere",
                       nodes_.name(*failure.node), kNodeFailuresMax,
                       format_duration(kNodeCooldown)));
    }
    decision = policy_.on_failure(failure.kind, failure_place,
                                  failure.node && !may_be_used(*failure.node));
  } else if (attempt_.cause.resize->preempted) {
    decision = policy_.on_failure(FailureKind::Preempted);
  }
  if (!decision.restart) return end_run(RunTrigger::GaveUp, decision.reason);
  scheduling_.restart(now_, decision.delay);
  change_state(RunTrigger::RestartDecided, decision.reason);
}

// Return where a worker died. For a program that never reports, nothing is known about that.
std::optional<FailurePlace> RunController::place_of(const Failure& failure) const {
  const bool reporting = attempt_.ranks.any_ever_reported();
  if (failure.kind != FailureKind::Worker || !failure.rank || !reporting) return std::nullopt;
  const RankTable::Entry& rank = *attempt_.ranks.find(*failure.rank);
  return FailurePlace{*failure.rank, rank.node, rank.known_report(),
                      attempt_.restored ? attempt_.restored->number : 0};
}

void RunController::end_run(RunTrigger trigger, const std::string& reason) {
  for (const NodeId node : standbys_.nodes()) release_standby(node);
  change_state(trigger, reason);
  actions_.push_back(RunEnded{state_, reason, stop_ ? std::optional(stop_->kind) : std::nullopt});
}

// ---- the rest

void RunController::advance() {
  for (RunState before = state_; !done(); before = state_) {
    if (facts(state_).has_attempt) perform(checkpoints_.advance(situation(), now_));
    switch (state_) {
      case RunState::Attaching:
        advance_attaching();
        break;
      case RunState::Scheduling:
        advance_scheduling();
        break;
      case RunState::Preparing:
        advance_preparing();
        break;
      case RunState::Running:
        advance_running();
        break;
      case RunState::Pausing:
        advance_pausing();
        break;
      case RunState::TearingDown:
        advance_teardown();
        break;
      case RunState::Starting:
      case RunState::Finished:
      case RunState::Errored:
      case RunState::Stopped:
        break;
    }
    if (state_ == before) break;
  }
  if (!facts(state_).has_attempt) return;
  perform(checkpoints_.watch(situation(), now_));
  for (std::string& text : attempt_.collectives.overdue(now_))
    note(NoteLevel::Warning, std::move(text));
}

std::optional<TimePoint> RunController::next_deadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (done()) return next;
  if (state_ == RunState::Scheduling) {
    consider(scheduling_.next_deadline(now_, nodes_.may_grow()));
    return next;
  }
  if (state_ == RunState::Running) {
    consider(growth_.next_deadline(now_));
    consider(standbys_.next_deadline());
    consider(policy_.next_deadline());
  }
  if (state_ == RunState::Pausing) consider(attempt_.quiesce->next_deadline(now_));
  consider(attempt_.collectives.next_deadline());
  consider(checkpoints_.next_deadline(state_));
  consider(attempt_.teardown.next_deadline());
  return next;
}

void RunController::change_state(RunTrigger trigger, std::string reason) {
  const RunState from = state_;
  state_ = next_state(from, trigger);
  const bool condition = !facts(state_).terminal && stop_ && stop_->kind == StopKind::StopCondition;
  actions_.push_back(StateChanged{from, state_, trigger, attempt_.id, std::move(reason),
                                  condition ? stop_->reason : ""});
}

void RunController::note(NoteLevel level, std::string text) {
  actions_.push_back(Note{level, std::move(text)});
}

}  // namespace train
