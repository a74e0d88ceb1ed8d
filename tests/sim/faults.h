// Decides what one seed does to a run: its size, the behaviour of its network and workers, and the
// time of each fault. The plan is made before the run, so that a person can read a seed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "lib/model/worker_progress.h"
#include "tests/sim/timeline.h"

namespace train::sim {

enum class FaultKind {
  CrashWorker,  // exits with a code, or dies of a signal, at any time
  OomWorker,    // the kernel kills it
  HangWorker,   // does nothing more, and ignores SIGTERM
  SlowNode,     // everything there takes two to ten times as long, for `length`
  CrashSupervisor,
  CrashDaemon,    // traind comes back after `length`
  PowerLoss,      // the node dies silently; it boots empty after `length`
  ResetLink,      // launcher ↔ traind: both ends notice soon; frames in flight are lost
  ForgetLink,     // the network silently drops all frames of the connection
  Partition,      // cuts one node off for `length`; frames wait until it heals
  PartitionUp,    // blocks only what the node sends
  PartitionDown,  // blocks only what the launcher sends
  Clog,           // stalls one direction for `length`
  SayAgain,       // the supervisors of a node resend everything
  StaleLauncher,  // a launcher of an older generation attaches and gives orders
  DiskFull,       // no shard and no checkpoint can be stored, for `length`
  DiskSlow,       // storing takes seconds, for `length`
  DrainNode,      // its traind is told to leave; another one comes after `length`
  RivalRun,       // another run claims some of a node's room, for `length`
  KillLauncher,   // another one resumes the run after `length`
  StopWorker,     // SIGSTOP, and SIGCONT after `length`
  SlowWorker,     // its next step takes `length` longer
  WedgeWorker,    // waits in the kernel for `length`: nothing ends it before
  KillIngest,     // an ingest worker dies
  StallDriver,    // takes no rounds for `length`
  KillDriver,     // for good
};

struct Fault {
  Duration at{};
  FaultKind kind{};
  int node = 0;
  int pick = 0;  // selects the worker, exit, direction or slowdown
  Duration length{};
};

struct StopRequest {
  Duration at{};
  StopKind kind{};
};

struct Habits {
  bool has_sdk = true;  // false: runs for a while and exits, as a plain script does
  int steps = 8;        // reports of each rank, over all attempts
  Duration step_min{}, step_max{};
  int checkpoint_every = 2;                // steps; 0: never
  int barrier_every = 0;                   // steps; 1: in lockstep, as data-parallel training is
  bool stop_checkpoint = false;            // has an on_stop function
  bool asks_checkpoint_requested = false;  // before each report
  bool asks_should_stop = false;           // before each step, and leaves if it says so
  double traps_term = 0, slow_to_term = 0;
  bool others_end = false;  // workers of other roles end by themselves after a while
};

/// The link between the launcher and one node.
struct LinkHabits {
  Duration delay_min = std::chrono::microseconds(50), delay_max = milliseconds(20);
  double loss = 0;
};

/// Places where the simulated programs may take the unlucky turn (FoundationDB's BUGGIFY). A
/// quarter of the runs arms each of them; an armed one fires once in twenty times.
enum class Site {
  ReportsPoured,    // many reports in one batch
  SyncSlow,         // the launcher's disk takes long
  ReapedLate,       // the parent notices a death late
  HelloLate,        // a worker's hello is late
  AdoptedLate,      // a restarted traind finds its supervisors slowly
  SpawnedLate,      // a supervisor's hello is late
  LeftoversLate,    // a supervisor's leftovers take time to vanish
  OutputKeptOpen,   // a leftover process holds a dead worker's pipes
  StoredOutOfTurn,  // one rank's shard is much later than the others'
  CommitSlow,
  StartSlow,  // delay between the controller's order and the frame
};
inline constexpr int kSites = static_cast<int>(Site::StartSlow) + 1;
std::string_view to_string(Site site);

/// The program that has started the launcher, and follows the run.
struct DriverHabits {
  int pace = 0;          // rounds that ranks may be ahead of it; 0: any number
  Duration round_max{};  // what it takes for a round, at most
  bool leaves = false;   // the run goes on without it
};

struct Plan {
  std::uint64_t seed = 0;
  int nodes = 1;
  double cpus_per_node = 4;
  JobSpec spec;
  Habits habits;
  DriverHabits driver;
  std::vector<LinkHabits> links;  // by node
  std::vector<Fault> faults;
  std::vector<StopRequest> stops;
  std::vector<Duration> checkpoint_requests;  // when somebody asks for a checkpoint
  Duration faults_end{};                      // also the end of the failures below
  double commit_fails = 0, spawn_fails = 0, shard_fails = 0;
  bool dies_at_end = false;      // the launcher, just after an attempt has ended
  bool command_missing = false;  // every spawn fails, permanently
  std::size_t report_window = 64;
  std::uint32_t armed = 0;  // sites, a bit each
  std::uint64_t wall_seed = 0;
  Duration ingest_busy_for{};  // from the beginning

  bool only_worker_faults() const;  // then stops have a tight bound
  bool has(FaultKind kind) const;
  bool has_ingest() const { return !spec.datasets.empty(); }
  /// Return whether ranks wait for rows now, and ingest workers are busy.
  bool ingest_busy(TimePoint now) const {
    return now.time_since_epoch() < seconds(1) + ingest_busy_for;
  }
  bool judges_hangs() const { return spec.run_config.failure_config.hang_timeout > Duration{0}; }
  /// Return how long a rank may be silent in this phase, at least.
  Duration hang_limit(Phase phase) const;
  /// Return after which time every hang is known: twice the longest limit, if the rank is busy.
  Duration hang_known_within() const;
  bool healthy_link(int node) const;  // as fast and reliable as the guarantees of §2b F6 need
  /// Return a node's wall clock: skewed, drifting and jumping by up to a day. No decision may
  /// depend on it.
  std::int64_t wall_us(int node, TimePoint now) const;
};

/// Return the number of nodes for a seed, unless the caller sets it: 1 to 64; 1,024 in one seed of
/// eleven; 4,096 in one of a hundred.
int swarm_nodes(std::uint64_t seed);

struct PlanShape {
  int nodes = 0;           // 0: swarm_nodes()
  int ranks_per_node = 0;  // 0: by the seed
  Duration lasts{};        // 0: by the seed; else about the length of a run without stop
  std::uint64_t wall_seed = 0;
};
Plan make_plan(std::uint64_t seed, const PlanShape& shape);

}  // namespace train::sim
