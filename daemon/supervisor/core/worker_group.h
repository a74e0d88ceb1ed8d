// The workers of one attempt on one node. Events come in, actions go out. Decides when workers are
// spawned, signalled and given up, and when nothing is left. The shell moves data (reports, output,
// checkpoints) without this class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace train {

struct WaitStatus {  // as waitpid() gave it
  bool signaled = false;
  int status = 0;  // exit code, or signal number
  bool core_dumped = false;
  bool operator==(const WaitStatus&) const = default;
};

// ---- events
struct GroupStart {
  std::vector<Rank> ranks;
};
struct WorkerSpawned {
  Rank rank;
  std::int64_t pid = 0;
};
struct WorkerSpawnFailed {
  Rank rank;
  Error error;
};
struct WorkerReaped {
  Rank rank;
  WaitStatus status;
};
/// The worker has left its loop, and its process waits for another run. For this group it has ended
/// well; WorkerReaped may still follow.
struct WorkerStays {
  Rank rank;
};
/// The worker's output is read to the end, and its staged checkpoints are stored.
struct WorkerDrained {
  Rank rank;
};
struct GroupStop {
  Duration grace{};
  std::string reason;
};
struct LauncherPresence {
  bool present = true;
};
struct GroupRelease {  // the launcher has received everything
  bool keep_workers = false;
};
struct GroupTick {};
using GroupEvent =
    std::variant<GroupStart, WorkerSpawned, WorkerSpawnFailed, WorkerReaped, WorkerStays,
                 WorkerDrained, GroupStop, LauncherPresence, GroupRelease, GroupTick>;

// ---- actions
struct SpawnWorker {
  Rank rank;
  bool operator==(const SpawnWorker&) const = default;
};
/// SIGKILL is for everything that the worker started, too.
struct SignalWorker {
  Rank rank;
  int signal = 0;
  bool operator==(const SignalWorker&) const = default;
};
/// Kill what the worker left behind.
struct ReapRankLeftovers {
  Rank rank;
  bool operator==(const ReapRankLeftovers&) const = default;
};
struct TellStarted {
  std::map<Rank, std::int64_t> pids;
  bool operator==(const TellStarted&) const = default;
};
struct TellStartFailed {
  Rank rank;
  Error error;
  bool operator==(const TellStartFailed&) const = default;
};
struct TellExited {
  Rank rank;
  std::int64_t pid = 0;
  WaitStatus status;
  bool stop_requested = false;
  bool operator==(const TellExited&) const = default;
};
struct TellGone {
  bool stay = false;  // all workers' processes do
  bool operator==(const TellGone&) const = default;
};
/// Tell the processes that stay that there is no other run for them.
struct EndThoseThatStay {
  bool operator==(const EndThoseThatStay&) const = default;
};
/// Instead of EndSupervisor: begin anew, with the processes that stay.
struct KeepWorkers {
  bool operator==(const KeepWorkers&) const = default;
};
struct EndSupervisor {
  std::string reason;
  bool operator==(const EndSupervisor&) const = default;
};
using GroupAction =
    std::variant<SpawnWorker, SignalWorker, ReapRankLeftovers, TellStarted, TellStartFailed,
                 TellExited, TellGone, EndThoseThatStay, KeepWorkers, EndSupervisor>;

enum class GroupPhase { Prepared, Starting, Running, Stopping, Gone };
std::string_view to_string(GroupPhase phase);

class WorkerGroup {
 public:
  WorkerGroup(Duration stop_grace, Duration orphan_timeout, TimePoint now);

  std::vector<GroupAction> handle(const GroupEvent& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  GroupPhase phase() const { return phase_; }
  /// Return whether the group was told to start its workers. A group that is stopped before that
  /// never has any; nor has one where only ingest workers are to run.
  bool began() const { return began_; }
  bool launcher_present() const { return !absent_since_; }
  std::map<Rank, std::int64_t> alive() const;
  /// Set both limits. A negative orphan timeout keeps the current one.
  void set_limits(Duration stop_grace, Duration orphan_timeout);

 private:
  struct Worker {
    std::int64_t pid = 0;  // 0: not spawned yet
    std::optional<WaitStatus> ended;
    bool drained = false;
    bool stop_requested = false;
    bool stays = false;  // its process does: it has ended as a worker only
    bool dead() const { return ended.has_value(); }
  };

  void on(const GroupStart&);
  void on(const WorkerSpawned&);
  void on(const WorkerSpawnFailed&);
  void on(const WorkerReaped&);
  void on(const WorkerStays&);
  void on(const WorkerDrained&);
  void on(const GroupStop&);
  void on(const LauncherPresence&);
  void on(const GroupRelease&);
  void on(const GroupTick&) {}
  void stop(Duration grace);
  void signal_alive(int signal);
  void advance();
  bool all_stay() const;
  bool only_some_stay() const;
  void end_those_that_stay();
  std::optional<TimePoint> orphaned_at() const;

  Duration stop_grace_, orphan_timeout_;
  TimePoint now_;
  GroupPhase phase_ = GroupPhase::Prepared;
  std::map<Rank, Worker> workers_;
  std::optional<TellStartFailed> start_failure_;
  std::optional<TimePoint> kill_at_;
  std::optional<TimePoint> stay_until_;    // those that stay and were told to end
  std::optional<TimePoint> absent_since_;  // when the launcher left
  bool was_present_ = false;
  bool began_ = false;
  bool told_gone_ = false;
  bool abandoned_ = false;  // no launcher came back in time; until one does after all
  bool released_ = false;
  bool keeps_ = false;  // released, but not its workers
  bool over_ = false;   // EndSupervisor or KeepWorkers was returned
  std::vector<GroupAction> actions_;
};

}  // namespace train
