// What one seed does to a run: how big it is, how its network and its workers behave, and which
// faults come when. Made once, before the run, so that a seed can be read.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "tests/sim/timeline.h"

namespace train::sim {

enum class FaultKind {
  CrashWorker,  // exits with a code, or dies of a signal, at any time
  OomWorker,    // the kernel kills it
  HangWorker,   // does nothing any more, and does not hear SIGTERM
  SlowNode,     // everything there takes two to ten times as long, for `length`
  CrashSupervisor,
  CrashDaemon,  // traind comes back after `length`
  PowerLoss,    // everything on the node is gone without a word; an empty one boots after `length`
  ResetLink,    // launcher ↔ traind: both ends notice soon, frames in flight are lost
  ForgetLink,   // the network swallows all frames of the connection, and tells nobody
  Partition,    // of one node, for `length`; frames wait until it heals
  PartitionUp,  // only what the node sends
  PartitionDown,  // only what the launcher sends
  Clog,           // one direction stands still for `length`
  SayAgain,       // the supervisors of a node say everything a second time
  StaleLauncher,  // one of an older generation attaches, and gives orders
  DiskFull,       // no part and no checkpoint can be stored, for `length`
  DiskSlow,       // storing takes seconds, for `length`
  DrainNode,      // its traind is told to leave; another one comes after `length`
  KillLauncher,   // another one resumes the run after `length`
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::KillLauncher) + 1;

struct Fault {
  Duration at{};
  FaultKind kind{};
  int node = 0;
  int pick = 0;  // which worker, which exit, which direction, how slow
  Duration length{};
};

struct StopRequest {
  Duration at{};
  StopKind kind{};
};

struct Habits {
  bool has_sdk = true;  // else: runs for a while and exits, as a plain script does
  int steps = 8;        // reports of each rank, over all attempts
  Duration step_min{}, step_max{};
  int checkpoint_every = 2;      // steps; 0: never
  int barrier_every = 0;         // steps; 1: in lockstep, as data-parallel training is
  bool stop_checkpoint = false;  // has an on_stop function
  double traps_term = 0, slow_to_term = 0;
};

/// Of the way between the launcher and one node.
struct LinkHabits {
  Duration delay_min = std::chrono::microseconds(50), delay_max = milliseconds(20);
  double loss = 0;
};

/// Places where the simulated programs may take the unlucky turn (FoundationDB's BUGGIFY): each is
/// armed in a quarter of the runs, and fires at one chance in twenty.
enum class Site {
  ReportsPoured,    // many reports in one batch
  SyncSlow,         // the launcher's disk takes long
  ReapedLate,       // the parent looks away
  HelloLate,        // a worker's first words
  AdoptedLate,      // a traind that is back finds its supervisors slowly
  SpawnedLate,      // a supervisor's first words
  LeftoversLate,    // what a supervisor left is not gone at once
  OutputKeptOpen,   // a dead worker's pipes, by what it left
  StoredOutOfTurn,  // one rank's part is much later than the others'
  CommitSlow,
  StartSlow,  // between the controller's order and the frame
};
inline constexpr int kSites = static_cast<int>(Site::StartSlow) + 1;
std::string_view to_string(Site site);

struct Plan {
  std::uint64_t seed = 0;
  int nodes = 1;
  double cpus_per_node = 4;
  JobSpec spec;
  Habits habits;
  std::vector<LinkHabits> links;  // by node
  std::vector<Fault> faults;
  std::vector<StopRequest> stops;
  Duration faults_end{};  // also of the failures below
  double commit_fails = 0, spawn_fails = 0, shard_fails = 0;
  bool dies_at_end = false;      // the launcher, just after an attempt has ended
  bool command_missing = false;  // every spawn fails, for good
  std::size_t report_window = 64;
  std::uint32_t armed = 0;  // sites, a bit each
  std::uint64_t wall_seed = 0;

  bool only_worker_faults() const;  // then stops have a tight bound
  bool has(FaultKind kind) const;
  bool healthy_link(int node) const;  // as fast and as whole as the promises of §2b F6 need
  /// The wall clock of a node: skewed, drifting and jumping by up to a day. No decision may depend
  /// on it.
  std::int64_t wall_us(int node, TimePoint now) const;
};

/// How many nodes a seed has, unless it is told: 1 to 64, one seed in eleven 1,024, one in a
/// hundred 4,096.
int swarm_nodes(std::uint64_t seed);

struct PlanShape {
  int nodes = 0;           // 0: swarm_nodes()
  int ranks_per_node = 0;  // 0: by the seed
  Duration lasts{};        // 0: by the seed; else a run without stop of about this length
  std::uint64_t wall_seed = 0;
};
Plan make_plan(std::uint64_t seed, const PlanShape& shape);

}  // namespace train::sim
