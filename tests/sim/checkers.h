// What must hold at every moment of a run (shared/reliability.md §4a names the invariants S1 to
// S12, L1, L2), seen from outside: by what the workers did, what the log holds and what was
// committed. The first violation ends the simulation.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "tests/sim/faults.h"
#include "tests/sim/worker.h"

namespace train::sim {

/// Deliberate bugs, one at a time, by which the checkers are checked.
enum class Mutant {
  None,
  OffByOneRank,       // the plan of the second node begins one rank too late
  EpochNotChecked,    // traind takes whoever attached last
  AckBeforeWrite,     // reports are acknowledged before they are on disk
  RestartBeforeGone,  // a stopping node counts as empty at once
  BudgetNotCounted,
  PartMissing,          // a checkpoint is committed without its last rank
  ReportsTakenTwice,    // what was sent again is written again
  NothingSaidAgain,     // a supervisor forgets what a broken link lost
  FramesPassOutOfStep,  // traind passes frames before the supervisor has said everything again
  RestoresOldCheckpoint,
};
std::string_view to_string(Mutant mutant);

class Checkers {
 public:
  Checkers(Timeline& timeline, const Plan& plan) : timeline_(timeline), plan_(plan) {}

  const std::optional<std::string>& violation() const { return violation_; }
  void fail(std::string what);

  // workers
  void worker_started(SimWorker& worker);  // S2, S3
  void joined_barrier(const WorkerPlace& place, std::uint64_t sequence);
  void left_barrier(const WorkerPlace& place, std::uint64_t sequence,
                    const std::vector<std::string>& parts);  // S4
  void crashed(const WorkerPlace& place) { crashed_.insert(place.attempt); }
  void left(const WorkerPlace& place, int code, bool asked);
  int workers_alive() const;

  // reports: S8
  void handed_over(Attempt attempt, Rank rank, std::uint64_t ordinal, int node);
  void logged(Attempt attempt, Rank rank, std::uint64_t ordinal);
  void acknowledged(Attempt attempt, Rank rank, std::uint64_t ordinal);

  // checkpoints: S5, S6, S7
  void stored(Attempt attempt, Rank rank, std::uint64_t index) {
    stored_.insert({attempt, rank, index});
  }
  void committed(const Commit& commit, const CheckpointInfo& info);
  void restored(const Start& start);

  // daemons and the launcher: S1, S10, S11
  void attached(std::uint64_t epoch, std::uint64_t held_by, bool holds);
  void node_declared_lost(int node) { lost_nodes_.insert(node); }
  void supervisor_gave_up(Attempt attempt, int node) { lost_hosts_.insert({attempt, node}); }
  void acted(const RunAction& action);
  void stop_asked() { stop_asked_ = true; }
  void run_over();  // nothing will happen any more

  bool ended() const { return ended_.has_value(); }

 private:
  void attempt_ended(const AttemptEnded& ended);
  void run_ended(const RunEnded& ended);
  void paused(const Pause& pause);
  void stopped(const StopGroup& stop);
  int world_size(Attempt attempt) const;

  Timeline& timeline_;
  const Plan& plan_;
  std::optional<std::string> violation_;
  std::vector<SimWorker*> workers_;
  std::map<Attempt, std::map<Rank, SimWorker*>> members_;
  std::map<Attempt, std::map<std::uint64_t, std::set<Rank>>> barriers_;
  std::set<Attempt> crashed_;
  std::map<Attempt, std::set<Rank>> left_well_;
  std::map<std::pair<Attempt, Rank>, std::uint64_t> handed_, logged_;
  std::map<std::pair<Attempt, Rank>, int> reporter_node_;
  std::set<std::tuple<Attempt, Rank, std::uint64_t>> stored_;
  std::map<Attempt, std::uint64_t> committed_index_;
  std::optional<CheckpointInfo> newest_;
  std::set<int> lost_nodes_;
  std::set<std::pair<Attempt, int>> lost_hosts_;
  std::optional<AttemptEnded> last_attempt_;
  int restarts_without_progress_ = 0;
  std::optional<Attempt> pausing_;
  bool stop_asked_ = false;
  std::optional<RunEnded> ended_;
};

}  // namespace train::sim
