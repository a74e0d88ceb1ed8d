// Controls one run through all its attempts: events in, actions out. It decides when workers start,
// stop, restart and end, and knows no socket, file or clock. launcher/cluster/run/run_driver
// performs the actions; tests/sim does so in virtual time.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/checkpoint_coordinator.h"
#include "launcher/core/collective_tracker.h"
#include "launcher/core/failure_policy.h"
#include "launcher/core/group_growth.h"
#include "launcher/core/host_table.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/node_pool.h"
#include "launcher/core/quiesce.h"
#include "launcher/core/rank_table.h"
#include "launcher/core/run_events.h"
#include "launcher/core/scheduling.h"
#include "launcher/core/standby_pool.h"
#include "launcher/core/teardown.h"
#include "launcher/core/validation_queue.h"

namespace train {

inline constexpr Duration kSurvivorGrace =
    seconds(1);  // TERM to KILL for the survivors of a failed group
inline constexpr const char* kNotStartedBefore = "an earlier launcher had not started all workers";
inline constexpr const char* kStoppedBefore =
    "the workers were being stopped when this launcher came";

/// Where a run begins. For a fresh start it has only defaults; when a run is resumed, it has what
/// the run's journal and folder say.
struct RunStart {
  Attempt first_attempt{0};
  std::optional<CheckpointInfo> checkpoint =
      {};                                  // the newest committed one, or resume_from_checkpoint
  std::vector<CheckpointInfo> older = {};  // that are kept beside it, oldest first
  std::uint64_t last_checkpoint_number = 0;
  std::size_t expected_nodes = 1;                // how many daemons the job names
  FailureMemory failures = {};                   // under earlier launchers
  int restarts = 0;                              // of the worker group so far
  bool finished = false;                         // an earlier launcher died before it said so
  std::vector<CheckpointInfo> unvalidated = {};  // that are to be, the oldest first
  std::optional<LivingAttempt> living = {};  // its workers may still run: we look for them first
  Placement placed = {};  // of the newest attempt: ranks stay on its nodes where these still are
};

class RunController {
 public:
  RunController(const JobSpec& spec, RunStart start, TimePoint now);

  std::vector<RunAction> handle(const RunEvent& event, TimePoint now);
  /// Return when to send Tick{} at the latest.
  std::optional<TimePoint> next_deadline() const;

  bool done() const { return facts(state_).terminal; }
  RunState state() const { return state_; }
  Attempt attempt() const { return attempt_.id; }
  int world_size() const { return attempt_.placement.world_size; }
  /// Return whether the attempt has ended: nobody waits for what its workers still say.
  bool is_over(Attempt attempt) const { return attempt < next_attempt_ && !current(attempt); }
  /// Return the node of a rank of the current attempt; none for other attempts.
  std::optional<NodeId> node_of(Attempt attempt, Rank rank) const;
  int node_count() const { return static_cast<int>(attempt_.placement.nodes.size()); }
  int restarts() const { return scheduling_.restarts(); }
  /// Return how many workers of the current attempt came from standby.
  int from_standby() const { return attempt_.from_standby; }
  bool pauses_at_checkpoint() const {
    return attempt_.quiesce && attempt_.quiesce->at_checkpoint();
  }
  const std::optional<CheckpointInfo>& newest_checkpoint() const { return checkpoints_.newest(); }
  /// Return the numbers of the checkpoints that are being validated or wait for validation. They
  /// have to be kept.
  std::vector<std::uint64_t> unvalidated() const { return validations_.unfinished(); }

 private:
  struct Failure {
    FailureKind kind = FailureKind::Worker;
    std::string cause;
    std::optional<Rank> rank;
    std::optional<WorkerEnd> end;
    std::optional<NodeId> node;
    std::optional<Error> start_error;
  };
  struct Resize {  // the group has to end gracefully and start again
    std::string reason;
    bool preempted = false;
  };
  struct Cause {  // why it ends
    std::optional<Failure> failure;
    std::optional<Resize> resize;
    int collateral = 0;  // deaths that followed from it
  };
  struct Adopted {  // from an earlier launcher: under it
    bool was_ending = false;
    std::vector<CollectiveRelease> held_back = {};  // until all supervisors have answered
  };
  struct AttemptState {
    Attempt id;
    Placement placement;
    std::uint32_t master_port = 0;
    HostTable hosts;
    RankTable ranks;
    CollectiveTracker collectives{0};
    std::optional<CheckpointInfo> restored;
    bool progressed = false;  // a report, or a completed collective
    int from_standby = 0;     // how many of its workers had waited for it
    std::optional<Adopted> adopted;
    bool was_pausing = false;        // an earlier launcher had asked for it
    std::optional<Quiesce> quiesce;  // since it was asked for
    Teardown teardown;
    Cause cause;
    bool was_ending() const { return adopted && adopted->was_ending; }
  };
  struct Stop {
    StopKind kind;
    std::string reason;
  };

  // events
  void on(const NodeUp&);
  void on(const NodeDown&);
  void on(const NodeDrain&);
  void on(const SupervisorAttached&);
  void on(const AttemptPrepared&);
  void on(const AttemptStarted&);
  void on(const StartRefused&);
  void on(const RankJoined&);
  void on(const RankExited&);
  void on(const NodeGroupGone&);
  void on(const SupervisorLost&);
  void on(const RankReported&);
  void on(const RankPaused&);
  void on(const ShardStaged&);
  void on(const CommitFinished&);
  void on(const ValidationFinished&);
  void on(const CollectiveJoined&);
  void on(const CollectiveResolved&);
  void on(const StopAsked&);
  void on(const Tick&) {}

  // what can go on now, whatever the event was
  void advance();
  void advance_attaching();
  void advance_scheduling();
  void advance_preparing();
  void advance_running();
  void advance_pausing();
  void advance_teardown();
  void advance_validations();

  void adopt(const LivingAttempt& living);
  void stopped_before();
  void begin_attempt(Placement placement);
  bool may_be_used(NodeId node);
  void readmit_nodes();
  void begin_stop();
  void begin_pause(const std::string& reason, TimePoint deadline, bool at_checkpoint);
  void hurry_pause(TimePoint deadline);
  void begin_resize(Resize resize, TimePoint deadline, bool at_checkpoint);
  void consider_growth();
  void consider_standbys();
  bool stands_by(Attempt attempt, NodeId node) const;
  void ask_standby(NodeId node);
  void release_standby(NodeId node);
  void tell_of_useless_standbys();
  void fail(Failure failure);
  void begin_teardown(Duration grace, const std::string& reason);
  void stop_hosts(Duration grace, const std::string& reason);
  void send_pause();
  Pause pause_for(NodeId node) const;
  void send_again(NodeId node);
  Prepare prepare_for(const PlacedNode& placed) const;
  void find_resize();
  bool ends_well() const;
  void conclude_attempt();
  void end_run(RunTrigger trigger, const std::string& reason);
  void host_lost(NodeId node, const std::string& reason, FailureKind kind);
  void release_collectives(const std::vector<CollectiveRelease>& releases);
  CheckpointCoordinator::Situation situation() const;
  void perform(CheckpointCoordinator::Effects effects);
  bool gives_up_shards();
  void add_validation(const CheckpointInfo& checkpoint);
  std::optional<NodeId> validation_host() const;
  bool waits_for_validations();
  void validate_again(NodeId node);
  bool give_up_restored(const Error& error);

  void change_state(RunTrigger trigger, std::string reason);
  void note(NoteLevel level, std::string text);
  bool current(Attempt attempt) const {
    return facts(state_).has_attempt && attempt == attempt_.id;
  }
  /// Return the rank that an event of the current attempt is about, or nullptr for older attempts
  /// and for ranks that do not exist.
  RankTable::Entry* rank_of(Attempt attempt, Rank rank);
  std::optional<FailurePlace> place_of(const Failure& failure) const;
  /// Return whether the event is about a node of the current attempt.
  bool concerns(Attempt attempt, NodeId node) const {
    return current(attempt) && attempt_.hosts.has(node);
  }

  const JobSpec spec_;
  const bool finished_before_;
  TimePoint now_;
  RunState state_ = RunState::Scheduling;
  NodePool nodes_;
  FailurePolicy policy_;
  Scheduling scheduling_;
  GroupGrowth growth_;
  StandbyPool standbys_;  // they wait for next_attempt_
  Attempt next_attempt_;
  CheckpointCoordinator checkpoints_;
  ValidationQueue validations_;
  AttemptState attempt_;
  std::optional<Stop> stop_;
  std::vector<RunAction> actions_;
};

}  // namespace train
