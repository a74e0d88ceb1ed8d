// Checks what must hold at every moment of a run, seen from outside: from what workers did, what
// the log holds and what was committed. The names come from the project's list of invariants; a
// comment explains each where it is checked. The first violation ends the simulation.
//
// Every check is cheap, however large the run: it looks only at what has just changed. full_check()
// looks at everything, now and then and at the end.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/core/run_events.h"
#include "tests/sim/faults.h"
#include "tests/sim/mutants.h"
#include "tests/sim/worker.h"

namespace train::sim {

class Checkers {
 public:
  Checkers(Timeline& timeline, const Plan& plan);

  const std::optional<std::string>& violation() const { return violation_; }
  /// `id`: S1 to S21, L1 to L8.
  void fail(std::string_view id, std::string what);

  // workers: S2, S3, S4
  void worker_started(SimWorker& worker);
  void worker_killed(const SimWorker& worker);  // SIGKILL is on its way: it acts no more
  void worker_died(const SimWorker& worker);
  void signalled(const WorkerLocation& meant, const SimWorker* hit);
  void joined_barrier(const WorkerLocation& location, std::uint64_t sequence);
  bool all_joined(const WorkerLocation& location, std::uint64_t sequence);
  void left_barrier(const WorkerLocation& location, std::uint64_t sequence, const SimFrame& result);
  void crashed(const WorkerLocation& location);
  /// SIGKILL was sent to a worker that waits in the kernel.
  void cannot_be_killed(const SimWorker& worker);
  void left(const WorkerLocation& location, int code, bool asked);
  /// A worker has come to its own end, having handed over this many checkpoints.
  void ended_by_itself(const WorkerLocation& location, std::uint64_t checkpoints);
  int workers_alive() const { return alive_; }
  void supervisor_started() { ++supervisors_; }
  void supervisor_ended() { --supervisors_; }
  bool nobody_left() const { return alive_ == 0 && supervisors_ == 0; }

  // reports: S8, S12
  void handed_over(const WorkerLocation& location, std::uint64_t report_seq, std::size_t kept);
  void logged(Attempt attempt, Rank rank, std::uint64_t report_seq);
  void acknowledged(Attempt attempt, Rank rank, std::uint64_t report_seq);
  void released(const WorkerLocation& location, std::uint64_t handed_over, std::size_t kept);  // L4
  void links_of_node(std::size_t links);
  void reports_waiting(std::size_t batches, std::size_t said_again);

  // checkpoints: S5, S6, S7
  void stored(Attempt attempt, Rank rank, std::uint64_t checkpoint_seq);
  void committed(const Commit& commit, const CheckpointInfo& info);
  /// The launcher waits no longer for this commit, which may still come.
  void gave_up(const GiveUpCommit& commit);
  /// The launcher hears that a shard of the checkpoint, or its commit, lacked space.
  void lacked_space(const std::pair<Attempt, std::uint64_t>& checkpoint);
  void restored(const Start& start);
  /// A worker starts with this context.
  void begins_from(const WorkerLocation& location, const JobContext& context);
  void validated(std::uint64_t number);                          // L5
  void checkpoint_asked(const std::string& id);                  // L7
  void checkpoint_answered(const CheckpointAnswered& answered);  // S19

  // the driver: S22
  void driver_acknowledged(Attempt attempt, std::uint64_t rounds);
  void nobody_paces() { nobody_paces_ = true; }
  /// The rank leaves the report for its next step, though the ranks are to be no more rounds ahead
  /// of the driver than `window`.
  void goes_on(const WorkerLocation& location, std::uint64_t report_seq, std::uint32_t window);

  // ingest workers: S21, L8
  void ingest_serves(Attempt attempt, const IngestPlace& place);
  void ingest_gone(Attempt attempt, const std::string& name);
  void roster_arrived(const WorkerLocation& location, const IngestRoster& roster);
  /// Nothing has disturbed the attempt for a while: compare the rosters of its ranks with what is.
  /// `wanted`: how many ingest workers there are to be.
  void compare_rosters(Attempt attempt, int wanted);
  int rosters_compared() const { return rosters_compared_; }

  // daemons and the launcher: S1, S10, S11, L1 to L3
  void attached(std::uint64_t generation, std::uint64_t held_by, bool holds);
  void order_passed(std::uint64_t generation, std::uint64_t newest);
  /// `finished`: its journal says that the run has finished.
  void launcher_began(std::uint64_t generation, const std::optional<LivingAttempt>& living,
                      const std::optional<RunEnded>& ended);
  void launcher_died();
  void end_journaled(Attempt attempt) { view(attempt).end_journaled = true; }
  void orphaned(Attempt attempt) { view(attempt).orphaned = true; }  // its supervisors stopped it
  void node_declared_lost(int node, std::optional<TimePoint> healthy_since,
                          std::optional<TimePoint> unwell_since);
  void supervisor_gave_up(Attempt attempt, int node) { lost_hosts_.insert({attempt, node}); }
  void acted(const RunAction& action);
  void stop_asked(StopKind kind, TimePoint workers_gone_by);
  void faults_over();
  void node_unwell(int node) { unwell_nodes_.insert(node); }  // its news may be late
  void node_well(int node) { unwell_nodes_.erase(node); }
  bool ended() const { return ended_.has_value(); }
  bool no_node_is_left() const { return stuck_nodes_.size() >= live_on_node_.size(); }
  int groups_that_hung() const { return groups_that_hung_; }

  void after_event();  // check what is due by now
  void full_check();
  void run_over();  // nothing more will happen

 private:
  struct Reports {
    std::uint64_t handed = 0, logged = 0;
    int node = -1;
  };
  struct Barrier {
    int joined = 0, left = 0;
    const void* checked = nullptr;  // many workers share one result frame
  };
  struct AttemptView {
    int world_size = 0, started = 0, left_well = 0;
    std::optional<std::uint64_t> checkpoints_at_own_end;
    std::set<std::uint64_t> given_up;   // checkpoint_seqs
    std::optional<TimePoint> begun_at;  // under the present launcher
    int places = 0;                     // that it was granted then
    bool crashed = false, orphaned = false, ended = false, end_journaled = false;
    std::vector<SimWorker*> members;  // by rank
    std::vector<char> has_left_well;
    std::set<Rank> live;                         // alive and not killed
    std::set<Rank> others;                       // workers of other roles, ever
    std::map<Rank, WorkerLocation> live_others;  // of them, those alive and not killed
    std::map<int, WorkerLocation> first_on_node;
    std::map<int, int> node_of_node_rank;
    std::map<std::uint64_t, Barrier> barriers;
    std::vector<Reports> reports;
    std::map<std::uint64_t, std::set<Rank>> stored;  // by checkpoint_seq
    std::uint64_t committed_seq = 0;
    std::uint64_t rounds = 0;                // that the driver has acknowledged
    std::optional<CheckpointInfo> restored;  // from its begin
    std::set<std::string> served, serving;   // ingest workers, ever and now, by name
    std::set<std::pair<std::string, std::string>> served_as;  // by name and Flight server
    TimePoint ingest_changed, ingest_died;  // the newest change, and the newest death
  };
  AttemptView& view(Attempt attempt);
  void begins(const AttemptBegun& begun);
  Reports& reports_of(Attempt attempt, Rank rank);
  void check_location(AttemptView& attempt, const WorkerLocation& location);
  void other_started(AttemptView& attempt, const WorkerLocation& location);
  void check_alone(const WorkerLocation& location);
  void attempt_ended(const AttemptEnded& ended);
  void run_ended(const RunEnded& ended);
  void restart_decided();
  void gave_up_run();
  struct Budget {
    std::size_t used = 0;
    std::optional<std::size_t> allowed;  // none: any number
  };
  Budget budget_of(FailureKind kind, const std::map<Attempt, FailureKind>& failures) const;
  void check_cause();
  void ends_well(Attempt last);
  void paused(const Pause& pause);
  void stopped(const StopGroup& stop);
  void accused(const AttemptEnded& ended);
  void accused(const CollectStacks& order);
  void told(const TellCheckpoint& tell);
  void ingest_counted(const IngestChanged& changed);
  void progress();

  Timeline& timeline_;
  const Plan& plan_;
  std::optional<std::string> violation_;
  std::map<Attempt, AttemptView> attempts_;
  AttemptView* last_view_ = nullptr;
  Attempt last_viewed_;
  std::vector<int> live_on_node_;
  int slots_per_node_ = 0;
  int alive_ = 0, supervisors_ = 0;
  int others_alive_ = 0;  // of alive_: workers of other roles
  std::optional<CheckpointInfo> newest_;
  std::vector<std::uint64_t> committed_;  // their numbers
  std::set<std::uint64_t> validated_;
  std::set<std::uint64_t> made_on_request_;             // committed checkpoints
  std::map<std::string, TimePoint> checkpoints_asked_;  // no answer yet; since when
  std::set<int> unwell_nodes_;
  std::set<std::pair<Attempt, int>> lost_hosts_;
  std::optional<AttemptEnded> last_attempt_;
  std::uint64_t newest_generation_ = 0;
  std::optional<Attempt> complete_;  // had all its ranks when this launcher came
  bool launcher_away_ = false;
  std::optional<RunEnded> had_ended_;  // when the present launcher began
  RunState state_{};
  std::set<std::pair<Attempt, std::uint64_t>> lacking_space_, resolved_;  // since the last commit
  int without_space_ = 0;                    // last ones in a row that this launcher gave up
  bool may_be_out_of_space_ = false;         // enough checkpoints lacked space
  bool out_of_space_ = false;                // enough were given up while the group ran
  std::map<Attempt, FailureKind> failures_;  // restarted after, since the last progress
  // The next launcher counts these, too: the run was ending, and then went on.
  std::map<Attempt, FailureKind> may_count_;
  std::optional<Attempt> pausing_, finish_checked_;
  bool quick_links_ = true;  // to all nodes
  bool stop_asked_ = false;
  bool nobody_paces_ = false;
  int groups_that_hung_ = 0, rosters_compared_ = 0;
  std::set<NodeId> stuck_nodes_;  // where a worker could not be killed, now or before
  std::optional<TimePoint> gone_by_, progress_by_;
  std::map<Attempt, TimePoint> given_up_by_;  // when nobody waits any more for a stuck worker
  std::map<Attempt, TimePoint> known_by_;     // when the launcher must know of a death
  std::optional<RunEnded> ended_;
};

}  // namespace train::sim
