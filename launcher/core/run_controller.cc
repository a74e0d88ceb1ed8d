#include "launcher/core/run_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {

RunController::RunController(const JobSpec& spec, RunStart start, TimePoint now)
    : spec_(spec),
      ended_before_(start.ended),
      run_id_(start.run_id),
      progress_(now, start.living ? RunState::Attaching : RunState::Scheduling),
      nodes_(start.expected_nodes, ingest_needs(spec), start.finds_nodes),
      policy_(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic(),
              start.expected_nodes),
      scheduling_(now, start.restarts, !ingest_needs(spec).empty()),
      room_(spec, start.run_id, start.first_attempt.value > 0, start.asked_ms),
      standbys_(spec.scaling_config.standby_workers),
      next_attempt_(start.first_attempt),
      kept_attempt_(start.kept ? start.kept->attempt : Attempt{}),
      kept_(std::move(start.kept)),
      keeps_workers_(start.keeps_workers),
      checkpoints_(spec.run_config, std::move(start.checkpoint), std::move(start.older),
                   start.last_checkpoint_number),
      validations_(spec.run_config.checkpoint_config.validation.every),
      time_(start.time) {
  if (start.down_places > 0 && !start.living) {
    down_since_ = now - start.down_for;
    down_places_ = start.down_places;
  }
  nodes_.placed(std::move(start.placed));
  policy_.recall(std::move(start.failures), now);
  for (const CheckpointInfo& checkpoint : start.unvalidated) add_validation(checkpoint);
  if (start.sets_up) scheduling_.hold();
  if (start.living) adopt(*start.living);
}

std::vector<RunAction> RunController::handle(const RunEvent& event, TimePoint now) {
  progress_.begin_event(now);
  if (!done()) {
    std::visit([this](const auto& e) { on(e); }, event);
    advance();
  }
  return progress_.take_actions();
}

std::optional<NodeId> RunController::node_of(Attempt attempt, Rank rank) const {
  const RankTable::Entry* entry = current(attempt) ? attempt_->group().ranks.find(rank) : nullptr;
  return entry == nullptr ? std::nullopt : std::optional(entry->node);
}

// ---- an attempt begins

void RunController::advance_scheduling() {
  if (progress_.stop())
    return end_run(progress_.stop_requested() ? RunTrigger::EndedByRequest : RunTrigger::EndedWell,
                   progress_.stop()->reason);
  if (scheduling_.backing_off(now())) return;
  if (ended_before_) return advance_ended_before();
  if (!scheduling_.looks(now(), nodes_.may_grow(), nodes_.expected())) return;
  readmit_nodes();
  const std::vector<NodeCapacity> nodes = nodes_.usable(spec_.scaling_config, policy_);
  const Placement placement = nodes_.placement(spec_.scaling_config, nodes);
  if (kept_.waits(now())) return;
  if (placement.world_size > 0) return begin_attempt(placement);
  if (placement.never) return end_run(RunTrigger::GaveUp, placement.reason);
  wait_for_room(placement.reason, nodes);
}

// A node that hears of it may offer more: room that it keeps for runs that come later.
void RunController::wait_for_room(const std::string& reason,
                                  const std::vector<NodeCapacity>& nodes) {
  claim_room(nodes);
  if (!scheduling_.says_waiting(now())) return;
  const std::string before = room_.runs_before(nodes_.runs_before());
  progress_.note(NoteLevel::Info,
                 fmt::format("waiting: {}{}{}", reason, before.empty() ? "" : "; ", before));
}

// Tell the last supervisors of a run that had ended that they may go.
void RunController::advance_ended_before() {
  if (nodes_.may_grow() && !scheduling_.nodes_waited_for(now())) return;
  switch (ended_before_->outcome) {
    case RunState::Errored:
      return end_run(RunTrigger::GaveUp, ended_before_->reason);
    case RunState::Stopped:
      return end_run(RunTrigger::EndedByRequest, ended_before_->reason);
    default:
      return end_run(RunTrigger::EndedWell, "it had finished under an earlier launcher");
  }
}

void RunController::claim_room(const std::vector<NodeCapacity>& nodes) {
  tell(room_.wait(nodes, nodes_.owner_share(), now()));
}

void RunController::tell(std::vector<KeepRoom> news) {
  for (KeepRoom& keep : news) progress_.add(std::move(keep));
}

void RunController::begin_attempt(const Placement& placement) {
  const Attempt id = take_number(placement);
  nodes_.placed(placement);
  tell(room_.begins(placement));
  checkpoints_.begin_attempt(id, placement.world_size);
  scheduling_.placed();
  growth_.attempt_began();
  workers_are_back();
  attempt_.emplace(context(), id, placement, scheduling_.restarts());
  attempt_->begin();
  for (const NodeId node : standbys_.attempt_began()) {
    if (!attempt_->is_supervised(node)) progress_.add(Release{id, node});
  }
}

/// Return the number of the attempt that begins. Workers that have stayed are found under theirs.
Attempt RunController::take_number(const Placement& placement) {
  if (const auto kept = kept_.decide(placement, next_attempt_)) {
    if (!kept->why_not.empty())
      progress_.note(NoteLevel::Info,
                     "the workers of the run before are not used, but new ones: " + kept->why_not);
    for (const NodeId node : kept->useless_on) progress_.add(Release{kept_attempt_, node});
    next_attempt_ = kept->attempt;
  }
  return std::exchange(next_attempt_, next_attempt_.next());
}

void RunController::adopt(const LivingAttempt& living) {
  for (std::size_t i = 0; i < living.placement.nodes.size(); ++i)
    nodes_.remember_name(living.placement.nodes[i].node, living.node_names[i]);
  nodes_.placed(living.placement);
  if (living.stop_condition) progress_.set_stop({StopKind::StopCondition, *living.stop_condition});
  next_attempt_ = std::max(next_attempt_, living.id.next());
  scheduling_.adopt(living.restart_count);
  checkpoints_.adopt_attempt(living);
  (void)room_.placed(living.placement);  // each node is told when it takes the run up
  attempt_.emplace(context(), living);
}

// ---- while it runs

// A link that breaks loses what was sent over it. The daemon's list of what lives there shows what
// did not arrive: an order to prepare, an order to release, or the news that a supervisor has
// ended.
void RunController::on(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  const bool other_room = nodes_.up(event);
  if (const auto again = event.attached ? room_.again(node) : std::nullopt) progress_.add(*again);
  if (other_room) growth_.capacity_changed();
  if (policy_.node_has(node, event.attempts))
    progress_.note(NoteLevel::Info,
                   fmt::format("the worker on {} that could not be killed has ended: the node may "
                               "be used again",
                               nodes_.name(node)));
  tell_recalled(node);
  bool standby_is_there = false;
  kept_.node_lists(node,
                   std::any_of(event.attempts.begin(), event.attempts.end(),
                               [this](Attempt attempt) { return kept_.open(attempt); }),
                   now());
  for (Attempt attempt : event.attempts) {
    if (kept_.open(attempt) && !kept_.useless()) continue;
    if (stands_by(attempt, node)) {
      standby_is_there = true;
      continue;
    }
    if (!current(attempt) || !attempt_->is_supervised(node)) progress_.add(Release{attempt, node});
    if (attempt < next_attempt_) continue;
    // An earlier launcher died before its journal recorded the attempt, but the number is taken.
    for (const NodeId waiting : standbys_.nodes()) release_standby(waiting);
    next_attempt_ = attempt.next();
  }
  if (!standby_is_there && standbys_.waiting_on(node) > 0) ask_standby(node);
  if (!has_attempt()) return;
  attempt_->on(event);
  if (!attempt_->is_supervised(node)) validations_.lost(node);
}

void RunController::on(const NodeDown& event) {
  if (has_attempt() && attempt_->is_supervised(event.node)) {
    validations_.lost(event.node);
    attempt_->on(event);
  } else {
    progress_.note(NoteLevel::Warning,
                   fmt::format("node {} is lost: {}", nodes_.name(event.node), event.reason));
  }
  nodes_.down(event.node);
  tell_node(event.node, NodeState::Lost, event.reason);
  standbys_.forget(event.node);
  growth_.capacity_changed();
}

void RunController::on(const NodeFound&) {
  nodes_.found();
  policy_.nodes_are(nodes_.expected());
}

void RunController::on(const NodeVanished& event) {
  nodes_.vanished(event.node);
  policy_.nodes_are(nodes_.expected());
}

void RunController::on(const NodeDrain& event) {
  const std::string text =
      fmt::format("node {} is being drained: {}", nodes_.name(event.node), event.reason);
  if (nodes_.drain(event.node)) {
    growth_.capacity_changed();
    release_standby(event.node);
    progress_.note(NoteLevel::Warning, text);
    tell_node(event.node, NodeState::Drained, event.reason);
  }
  if (has_attempt()) attempt_->drain(event, text);  // again, too: it may have less time now
}

void RunController::on(const SupervisorAttached& event) {
  if (kept_.open(event.attempt) && !kept_.useless())
    return kept_.supervisor_tells(event.node, event.kept);
  if (stands_by(event.attempt, event.node)) {
    progress_.add(StandBy{event.attempt, event.node, standbys_.waiting_on(event.node)});
    return;
  }
  if (!current(event.attempt) || !attempt_->is_supervised(event.node)) {
    progress_.add(Release{event.attempt, event.node});
    return;
  }
  attempt_->on(event);
  validate_again(event.node);
}

void RunController::on(const SupervisorLost& event) {
  if (event.standby) {  // new requests there start without them
    if (event.attempt == next_attempt_) standbys_.forget(event.node);
    return;
  }
  if (kept_.open(event.attempt)) kept_.node_lists(event.node, false, now());
  if (!current(event.attempt)) return;
  validations_.lost(event.node);
  attempt_->on(event);
}

void RunController::on(const CommitFinished& event) {
  if (event.checkpoint && checkpoints_.take_committed(*event.checkpoint, event.removed)) {
    add_validation(*event.checkpoint);
    policy_.on_progress();
  }
  if (current(event.attempt)) attempt_->on(event);
}

void RunController::on(const StopAsked& event) {
  const bool condition = event.kind == StopKind::StopCondition;
  if (progress_.stop() && condition) return;
  // Once training has ended well, whoever asks for a stop hurries what is left.
  if (!condition && has_attempt() && attempt_->training_is_over())
    return attempt_->stop(true, event.reason);
  const bool again = progress_.stop_requested();
  if (!again) progress_.set_stop({event.kind, event.reason});
  if (!has_attempt()) return;  // advance_scheduling ends the run
  if (again || (event.kind == StopKind::Interrupt && checkpoints_.offered_to_give_up()))
    attempt_->escalate();
  attempt_->stop(again, event.reason);
}

void RunController::on(const StacksAsked& event) {
  if (has_attempt()) return attempt_->collect_stacks(event.why, event.ranks);
  progress_.add(CollectStacks{attempt(), {}, {}, event.why});  // answered: there are none
}

void RunController::on(const CheckpointAsked& event) {
  if (has_attempt()) return attempt_->ask_checkpoint(event.id);
  progress_.add(CheckpointAnswered{
      .id = event.id,
      .error = fmt::format("the run has no workers now: it is {}", to_string(state()))});
}

void RunController::advance_running() {
  if (attempt_->cause().failed()) return;
  tell(room_.placed(attempt_->group().placement));
  readmit_nodes();
  consider_standbys();
  advance_validations();
  consider_growth();
}

void RunController::consider_growth() {
  const WorkerCount& wanted = spec_.scaling_config.num_workers;
  if (!wanted.elastic() || world_size() >= wanted.max) return;
  const auto capacity = [this] {
    readmit_nodes();
    return nodes_.capacity(spec_.scaling_config, policy_);
  };
  if (const auto size = growth_.advance(attempt_->group().ranks, capacity, now()))
    attempt_->grow(fmt::format("there is room for {} workers instead of {}", *size, world_size()));
}

bool RunController::may_be_used(NodeId node) {
  readmit_nodes();
  const std::vector<NodeCapacity> usable = nodes_.usable(spec_.scaling_config, policy_);
  return std::any_of(usable.begin(), usable.end(),
                     [node](const NodeCapacity& capacity) { return capacity.node == node; });
}

// Readmit nodes whose cooldown is over: there is more room.
void RunController::readmit_nodes() {
  if (!policy_.readmit(now())) return;
  growth_.capacity_changed();
  for (const auto& [node, told] : told_nodes_) tell_node(node);
}

void RunController::tell_node(NodeId node) {
  const NodeState state = policy_.stuck(node)         ? NodeState::Stuck
                          : nodes_.draining(node)     ? NodeState::Drained
                          : nodes_.lost(node)         ? NodeState::Lost
                          : policy_.quarantined(node) ? NodeState::Quarantined
                                                      : NodeState::Up;
  ToldNode& told = told_nodes_[node];
  if (told.state == state) return;
  told.state = state;
  progress_.add(NodeStateChanged{nodes_.name(node), state,
                                 state == NodeState::Up ? "" : told.reasons[state]});
}

void RunController::tell_node(NodeId node, NodeState why_not, std::string reason) {
  told_nodes_[node].reasons[why_not] = std::move(reason);
  tell_node(node);
}

/// Tell of a node that is up, with what earlier launchers knew of it, now that its name is known.
void RunController::tell_recalled(NodeId node) {
  auto& reasons = told_nodes_[node].reasons;
  reasons.try_emplace(NodeState::Quarantined, "it failed often under an earlier train-run");
  reasons.try_emplace(NodeState::Stuck, "a worker there cannot be killed");
  tell_node(node);
}

// ---- it ends

void RunController::advance_teardown() {
  if (attempt_->torn_down() && !waits_for_validations()) conclude_attempt();
}

/// Return whether the attempt ends well, judging by what its workers did and what was requested.
bool RunController::ends_well() const {
  return progress_.stop() ? !progress_.stop_requested() : attempt_->cause().none();
}

void RunController::conclude_attempt() {
  tell_of_useless_standbys();
  validations_.end_attempt();
  workers_stay_ =
      keeps_workers_ && !progress_.stop_requested() && ends_well() && attempt_->workers_stay();
  const AttemptEnded ended = attempt_->conclude(workers_stay_);
  time_ += ended.time;
  workers_went_down(world_size());
  progress_.add(ended);
  const std::optional<Stop>& stop = progress_.stop();
  if (progress_.stop_requested()) return end_run(RunTrigger::EndedByRequest, stop->reason);
  if (ends_well()) return end_run(RunTrigger::EndedWell, stop ? stop->reason : "");
  const FailureDecision decision = decide(ended);
  if (!decision.restart) return end_run(RunTrigger::GaveUp, decision.reason);
  scheduling_.restart(now(), decision.delay);
  progress_.change_state(RunTrigger::RestartDecided, attempt(), decision.reason, decision.delay);
}

FailureDecision RunController::decide(const AttemptEnded& ended) {
  for (const NodeId node : ended.stuck) {
    policy_.node_stuck(node, ended.attempt);
    tell_node(node, NodeState::Stuck,
              fmt::format("a worker of attempt {} there cannot be killed", ended.attempt.value));
  }
  if (policy_.all_nodes_stuck())
    return {.restart = false,
            .delay = {},
            .reason = "no node is left without a worker that cannot be killed"};
  if (ended.learned_limits_right) policy_.learned_limits_were(*ended.learned_limits_right);
  if (attempt_->cause().lacked_room()) {
    if (!room_.keeps_that_of_workers())  // nobody takes what is left meanwhile
      claim_room(nodes_.usable(spec_.scaling_config, policy_));
    return {.restart = true,
            .delay = scheduling_.delay_for_room(run_id_),
            .reason = "no failure is counted"};
  }
  scheduling_.had_room();
  if (kept_.used_by(ended.attempt) && !attempt_->started()) {
    progress_.note(NoteLevel::Info, "the workers of the run before could not be used: " +
                                        ended.cause + "; new ones are started");
    return {.restart = true, .delay = {}, .reason = "no failure is counted"};
  }
  if (!ended.failure) return {.restart = true, .delay = {}, .reason = "no failure is counted"};
  const bool at_fault = ended.failed && ended.failure != FailureKind::Preempted;
  if (at_fault && ended.node && policy_.node_failed(*ended.node, now())) {
    progress_.note(NoteLevel::Warning,
                   fmt::format("node {} failed {} times in a row without a newer checkpoint: it is "
                               "quarantined for {}, as long as there is room elsewhere",
                               ended.root_node, kNodeFailuresMax, format_duration(kNodeCooldown)));
    tell_node(*ended.node, NodeState::Quarantined,
              fmt::format("it failed {} times in a row without a newer checkpoint; the newest: {}",
                          kNodeFailuresMax, ended.cause.empty() ? "a worker died" : ended.cause));
  }
  return policy_.on_failure(*ended.failure, ended.location,
                            ended.node && !may_be_used(*ended.node));
}

void RunController::end_run(RunTrigger trigger, const std::string& reason) {
  for (const NodeId node : standbys_.nodes()) release_standby(node);
  tell(room_.nothing());
  workers_are_back();  // none will come
  progress_.change_state(trigger, attempt(), reason);
  std::optional<StopKind> stop;
  if (ended_before_) stop = ended_before_->stop;
  if (progress_.stop()) stop = progress_.stop()->kind;
  progress_.add(RunEnded{state(), reason, stop, workers_stay_});
}

// ---- what its time was used for

void RunController::workers_are_back() {
  if (down_since_) time_[TimeUse::Down] += (now() - *down_since_) * down_places_;
  down_since_.reset();
}

TimeAccounts RunController::attempt_time(TimePoint now) const {
  return has_attempt() ? attempt_->worker_time(now) : TimeAccounts{};
}

TimeAccounts RunController::worker_time(TimePoint now) const {
  TimeAccounts all = time_;
  all += attempt_time(now);
  if (down_since_) all[TimeUse::Down] += (now - *down_since_) * down_places_;
  return all;
}

// ---- do what is now possible

void RunController::advance() {
  for (RunState before = state(); !done(); before = state()) {
    if (has_attempt()) attempt_->advance();
    if (state() == before) advance_run();
    if (state() == before) break;
  }
  if (has_attempt()) attempt_->watch();
}

void RunController::advance_run() {
  if (state() == RunState::Scheduling) return advance_scheduling();
  if (state() == RunState::Running) return advance_running();
  if (state() == RunState::TearingDown) return advance_teardown();
}

std::optional<TimePoint> RunController::next_deadline() const {
  if (done()) return std::nullopt;
  if (state() == RunState::Scheduling) {
    const auto next = scheduling_.next_deadline(now(), nodes_.may_grow());
    const auto kept = kept_.next_deadline();
    return kept && (!next || *kept < *next) ? kept : next;
  }
  std::optional<TimePoint> next = attempt_->next_deadline();
  if (state() != RunState::Running) return next;
  for (const std::optional<TimePoint> at :
       {growth_.next_deadline(now()), standbys_.next_deadline(), policy_.next_deadline()})
    if (at && (!next || *at < *next)) next = at;
  return next;
}

}  // namespace train
