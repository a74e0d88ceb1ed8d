// Controls one attempt: prepares, starts and runs its workers, and brings them to their end. Events
// in, actions out. RunController decides when an attempt begins and what follows its end.
// AttemptGroup holds the facts; GroupEnding handles everything that leads to the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/attempt_group.h"
#include "launcher/core/attempt_time.h"
#include "launcher/core/checkpoint_requests.h"
#include "launcher/core/collective_tracker.h"
#include "launcher/core/digest_comparison.h"
#include "launcher/core/group_ending.h"
#include "launcher/core/hang_controller.h"
#include "launcher/core/ingest_board.h"
#include "launcher/core/ingest_hosts.h"
#include "launcher/core/peer_ports.h"
#include "launcher/core/start_watch.h"
#include "launcher/core/straggler_detector.h"

namespace train {

class AttemptController {
 public:
  /// Make a new attempt. Precondition: the checkpoint coordinator has begun it.
  AttemptController(const RunContext& run, Attempt id, const Placement& placement,
                    int restart_count);
  /// Take over a living attempt. The journal only shows where to look: when its supervisors learn
  /// of the new launcher, they send everything again.
  AttemptController(const RunContext& run, const LivingAttempt& living);
  AttemptController(const AttemptController&) = delete;
  AttemptController& operator=(const AttemptController&) = delete;

  /// Order the nodes to prepare.
  void begin();

  // ---- facts
  const AttemptGroup& group() const { return group_; }
  const AttemptCause& cause() const { return ending_.cause(); }
  /// Return whether a report has arrived or a collective call has completed.
  bool progressed() const { return progressed_; }
  /// Return what its time was used for, until `now`.
  TimeAccounts worker_time(TimePoint now) const {
    return time_.accounts(AttemptTime::End::None, now);
  }
  const IngestBoard& ingest() const { return ingest_; }
  /// Return how many of its workers were standby processes.
  int from_standby() const { return from_standby_; }
  /// Return whether all its workers have been started.
  bool started() const { return started_; }
  bool pauses_at_checkpoint() const {
    return ending_.quiesce() && ending_.quiesce()->at_checkpoint();
  }
  /// Return whether, as far as we know, the node has a supervisor of this attempt.
  bool is_supervised(NodeId node) const {
    return (group_.hosts.has(node) && !group_.hosts.is_lost(node)) ||
           ingest_hosts_.is_supervised(node);
  }

  // ---- events. Those about a rank or a node that the attempt does not have are ignored.
  /// Handle a node that is back, perhaps without the attempt's supervisor.
  void on(const NodeUp& event);
  void on(const NodeDown& event);
  void on(const SupervisorAttached& event);
  void on(const SupervisorLost& event);
  void on(const AttemptPrepared& event);
  void on(const AttemptStarted& event);
  void on(const StartRefused& event);
  void on(const NodeGroupGone& event);
  void on(const RankJoined& event) {
    group_.ranks.change(event.rank, [](RankTable::Entry& rank) { rank.joined = true; });
  }
  void on(const RankReported& event);
  void on(const RanksSampled& event);
  void on(const RankPaused& event);
  void on(const RankExited& event);
  void on(const StacksCollected& event) { hangs_.on(event); }
  void on(const CollectiveJoined& event);
  void on(const CollectiveResolved& event);
  void on(const ShardStaged& event);
  void on(const CommitFinished& event);
  void on(const CheckpointPositionTold& event);
  void on(const IngestServes& event) { perform(ingest_.on(event, run_.nodes.name(event.node))); }
  void on(const IngestGone& event) { perform(ingest_.on(event, run_.nodes.name(event.node))); }
  void on(const IngestSampled& event) { ingest_.on(event, now()); }
  void on(const DatasetsRead& event);
  /// Leave a node within the event's grace. `text`: the reason.
  void drain(const NodeDrain& event, const std::string& text);
  /// Return whether all that train have ended well, and workers of other roles are being stopped.
  bool training_is_over() const {
    return state() == RunState::TearingDown && group_.ranks.all_ended_by_themselves() &&
           group_.ranks.any_other_alive();
  }
  /// Stop on request. `again`: this is not the first request.
  void stop(bool again, const std::string& reason) { ending_.stop(again, reason); }
  /// Order the stacks of these ranks; empty: of all.
  void collect_stacks(const std::string& why, std::vector<Rank> ranks) {
    hangs_.collect_stacks(why, std::move(ranks));
  }
  /// Make the ranks write a checkpoint and go on. `id`: of the request, for its answer.
  void ask_checkpoint(const std::string& id);
  /// Do not wait for storage that hangs.
  void escalate() { ending_.escalate(); }
  /// End gracefully, without losing work, so that a larger group can begin.
  void grow(const std::string& reason) {
    ending_.resize({.reason = reason}, TimePoint::max(), true);
  }

  /// Do what is due. Call this after every event and at next_deadline().
  void advance();
  /// Warn about whatever takes long. Call this when nothing more is due.
  void watch();
  std::optional<TimePoint> next_deadline() const;

  /// Return whether nothing is left to wait for: no worker, no shard, no commit.
  bool torn_down() { return ending_.torn_down(); }
  /// Release the supervisors and describe the attempt's end.
  /// `keep_workers`: those that stay.
  AttemptEnded conclude(bool keep_workers);
  /// Return whether the processes of all workers wait for another run.
  bool workers_stay() const;

 private:
  void record_begin();
  bool refuses_differences();
  void advance_attaching();
  void advance_preparing();
  void advance_running();
  void advance_ingest();
  void look_for_stragglers();
  Prepare prepare_for(const PlacedNode& placed) const;
  void send_again(NodeId node);
  void host_lost(NodeId node, const std::string& reason, FailureKind kind);
  CollectiveTracker& tracker_of(std::uint64_t sequence);
  void release_collectives(const std::vector<CollectiveRelease>& releases);
  CheckpointCoordinator::Situation situation() const;
  void perform(CheckpointCoordinator::Effects effects);
  void perform(const CheckpointRequests::Effects& effects);
  void perform(IngestBoard::Effects effects);
  void prepare_ingest_host(NodeId node);
  void start_ingest_host(NodeId node);
  void ingest_host_lost(NodeId node, const std::string& reason, IngestHosts::Step step);
  void ingest_host_attached(const SupervisorAttached& event);
  void advance_requests();
  bool give_up_restored(const Error& error);
  AttemptTime::End end_of_time(const AttemptEnded& ended) const;

  RunState state() const { return run_.progress.state(); }
  TimePoint now() const { return run_.progress.now(); }
  void change_state(RunTrigger trigger, const std::string& reason) {
    run_.progress.change_state(trigger, group_.id, reason);
  }

  const RunContext run_;
  AttemptGroup group_;
  GroupEnding ending_;
  const int restart_count_;
  std::uint32_t master_port_ = 0;
  DigestComparison digests_;
  PeerPorts ports_;
  CollectiveTracker collectives_;          // of the workers' calls
  CollectiveTracker backend_collectives_;  // of supervisors, for the backend
  HangController hangs_;
  AttemptTime time_;
  StragglerDetector stragglers_;
  StartWatch start_watch_;
  CheckpointRequests requests_;
  std::optional<TimePoint> ingest_at_;  // when it was considered
  IngestBoard ingest_;
  IngestHosts ingest_hosts_;
  std::optional<Start> start_;                // of the ranks, once it was ordered
  std::vector<CollectiveRelease> held_back_;  // until all supervisors have answered
  bool progressed_ = false;
  int from_standby_ = 0;
  bool started_ = false;
  std::set<NodeId> stay_on_;  // where all workers' processes wait for another run
};

}  // namespace train
