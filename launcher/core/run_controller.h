// Controls one run through all its attempts: events in, actions out. It decides when workers start,
// stop, restart and end, and knows nothing of sockets, files or clocks.
// launcher/cluster/run/run_driver performs the actions; tests/sim does so in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/attempt_controller.h"
#include "launcher/core/checkpoint_coordinator.h"
#include "launcher/core/failure_policy.h"
#include "launcher/core/group_growth.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/kept_group.h"
#include "launcher/core/node_pool.h"
#include "launcher/core/placed_ranks.h"
#include "launcher/core/room_claims.h"
#include "launcher/core/run_events.h"
#include "launcher/core/run_progress.h"
#include "launcher/core/scheduling.h"
#include "launcher/core/standby_pool.h"
#include "launcher/core/validation_queue.h"

namespace train {

/// Where a run begins. A fresh run has only the defaults; a resumed run has what its journal and
/// folder contain.
struct RunStart {
  Attempt first_attempt{0};
  /// The newest committed checkpoint, or resume_from_checkpoint.
  std::optional<CheckpointInfo> checkpoint = {};
  /// The ones kept beside it, oldest first; resume_from_checkpoint (number 0) before all others.
  std::vector<CheckpointInfo> older = {};
  std::uint64_t last_checkpoint_number = 0;
  std::size_t expected_nodes = 1;  // how many daemons the job names
  bool finds_nodes = false;        // it may name more while the run goes on
  FailureMemory failures = {};     // under earlier launchers
  int restarts = 0;                // of the worker group so far
  /// How the run had ended, if an earlier launcher died before it recorded the run's end.
  std::optional<RunEnded> ended = {};
  std::vector<CheckpointInfo> unvalidated = {};  // checkpoints still to validate, oldest first
  std::optional<LivingAttempt> living = {};  // its workers may still run: we look for them first
  /// The newest attempt's placement: ranks stay on its nodes, as far as those still exist.
  Placement placed = {};
  std::string run_id = {};
  std::int64_t asked_ms = 0;  // when the run was asked for: QueuePlace::since_ms
  bool sets_up = false;       // no attempt begins before RunSetUp
  TimeAccounts time = {};     // of the attempts that have ended, and between them
  /// Since the newest attempt ended, if the run had not; for so many places.
  Duration down_for = {};
  int down_places = 0;
  bool keeps_workers = false;  // if the run ends well, those whose loops return wait for another
  std::optional<KeptWorkersOf> kept = {};  // that an earlier run has left
};

class RunController {
 public:
  RunController(const JobSpec& spec, RunStart start, TimePoint now);
  RunController(const RunController&) = delete;
  RunController& operator=(const RunController&) = delete;

  std::vector<RunAction> handle(const RunEvent& event, TimePoint now);
  /// Return when to send Tick{} at the latest.
  std::optional<TimePoint> next_deadline() const;

  bool done() const { return facts(state()).terminal; }
  /// Return whether somebody has asked the run to stop, or a stop condition is met.
  bool is_stopping() const { return progress_.stop().has_value(); }
  RunState state() const { return progress_.state(); }
  /// Return whether the attempt has ended: nobody waits for what its workers still send.
  bool is_over(Attempt attempt) const { return attempt < next_attempt_ && !current(attempt); }
  /// Return the node of a rank of the current attempt; none for other attempts.
  std::optional<NodeId> node_of(Attempt attempt, Rank rank) const;

  // Of the newest attempt, or of none:
  Attempt attempt() const { return attempt_ ? attempt_->group().id : Attempt{}; }
  int world_size() const { return attempt_ ? attempt_->group().placement.world_size : 0; }
  /// Return how many workers the attempt has, of all roles.
  int workers() const { return attempt_ ? workers_of_all_roles(attempt_->group().placement) : 0; }
  int node_count() const {
    return attempt_ ? static_cast<int>(attempt_->group().placement.nodes.size()) : 0;
  }
  /// Return how many of its workers came from standby.
  int from_standby() const { return attempt_ ? attempt_->from_standby() : 0; }
  /// Return how many ingest workers there are to be, of all datasets.
  int ingest_wanted() const { return attempt_ ? attempt_->ingest().wanted() : 0; }
  bool pauses_at_checkpoint() const { return attempt_ && attempt_->pauses_at_checkpoint(); }

  int restarts() const { return scheduling_.restarts(); }
  /// Return what the time of the run's workers was used for, until `now`: of the current attempt
  /// alone, and of all attempts and the time between them.
  TimeAccounts attempt_time(TimePoint now) const;
  TimeAccounts worker_time(TimePoint now) const;
  const std::optional<CheckpointInfo>& newest_checkpoint() const { return checkpoints_.newest(); }
  /// Return the numbers of the checkpoints that are being validated or wait for validation. They
  /// must be kept.
  std::vector<std::uint64_t> unvalidated() const { return validations_.unfinished(); }

 private:
  // events
  void on(const NodeUp&);
  void on(const NodeDown&);
  void on(const NodeFound&);
  void on(const NodeVanished&);
  void on(const NodeDrain&);
  void on(const SupervisorAttached&);
  void on(const SupervisorLost&);
  void on(const CommitFinished&);
  void on(const ValidationFinished&);
  void on(const StopAsked&);
  void on(const StacksAsked&);
  void on(const CheckpointAsked&);
  void on(const RunSetUp&) { scheduling_.release(now()); }
  void on(const Tick&) {}
  /// All other events are the attempt's own.
  template <class Event>
  void on(const Event& event) {
    if (current(event.attempt)) attempt_->on(event);
  }

  // do what is now possible, whatever the event was
  void advance();
  void advance_run();
  void advance_scheduling();
  void advance_ended_before();
  void advance_running();
  void advance_teardown();

  RunContext context() {
    return {spec_, nodes_, checkpoints_, progress_, policy_.memory().trusts_learned_limits};
  }
  void adopt(const LivingAttempt& living);
  void wait_for_room(const std::string& reason, const std::vector<NodeCapacity>& nodes);
  void claim_room(const std::vector<NodeCapacity>& nodes);
  void tell(std::vector<KeepRoom> news);
  void begin_attempt(const Placement& placement);
  Attempt take_number(const Placement& placement);
  void conclude_attempt();
  FailureDecision decide(const AttemptEnded& ended);
  bool ends_well() const;
  void end_run(RunTrigger trigger, const std::string& reason);

  void workers_went_down(int places) { down_since_ = now(), down_places_ = places; }
  void workers_are_back();

  void readmit_nodes();
  /// Tell whether the node may be used, if that has changed.
  void tell_node(NodeId node);
  void tell_node(NodeId node, NodeState why_not, std::string reason);
  void tell_recalled(NodeId node);
  bool may_be_used(NodeId node);
  void consider_growth();

  void consider_standbys();
  bool stands_by(Attempt attempt, NodeId node) const;
  void ask_standby(NodeId node);
  void release_standby(NodeId node);
  void tell_of_useless_standbys();

  void add_validation(const CheckpointInfo& checkpoint);
  std::optional<NodeId> validation_host() const;
  void advance_validations();
  bool waits_for_validations();
  void validate_again(NodeId node);

  bool has_attempt() const { return facts(state()).has_attempt; }
  bool current(Attempt attempt) const { return has_attempt() && attempt == this->attempt(); }
  TimePoint now() const { return progress_.now(); }

  const JobSpec spec_;
  const std::optional<RunEnded> ended_before_;
  const std::string run_id_;
  RunProgress progress_;
  NodePool nodes_;
  FailurePolicy policy_;
  struct ToldNode {
    NodeState state = NodeState::Up;
    std::map<NodeState, std::string> reasons = {};
  };
  std::map<NodeId, ToldNode> told_nodes_;
  Scheduling scheduling_;
  RoomClaims room_;
  GroupGrowth growth_;
  StandbyPool standbys_;  // they wait for next_attempt_
  Attempt next_attempt_;
  const Attempt kept_attempt_;  // of kept_, if there are any
  KeptGroup kept_;
  const bool keeps_workers_;
  bool workers_stay_ = false;  // those of the attempt that ended last
  CheckpointCoordinator checkpoints_;
  ValidationQueue validations_;
  std::optional<AttemptController> attempt_;  // the newest
  TimeAccounts time_;                         // of attempts that have ended, and between them
  std::optional<TimePoint> down_since_;       // there has been no attempt since then,
  int down_places_ = 0;                       // for so many workers
};

}  // namespace train
