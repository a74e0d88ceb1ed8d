// What one seed does to a run: how big it is, how its workers behave, and which faults come when.
// Made once, before the run, so that a seed can be read.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "tests/sim/timeline.h"

namespace train::sim {

enum class FaultKind {
  CrashWorker,  // exits with a code, or dies of a signal, at any time
  HangWorker,   // does nothing any more, and does not hear SIGTERM
  CrashSupervisor,
  CrashDaemon,    // traind comes back after `length`
  ResetLink,      // launcher ↔ traind: both ends notice soon, frames in flight are lost
  CutNode,        // silence for `length`
  StaleLauncher,  // one of an older epoch attaches
};
struct Fault {
  Duration at{};
  FaultKind kind{};
  int node = 0;
  int pick = 0;  // which worker, which exit
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

struct Plan {
  std::uint64_t seed = 0;
  int nodes = 1;
  double cpus_per_node = 4;
  JobSpec spec;
  Habits habits;
  std::vector<Fault> faults;
  std::vector<StopRequest> stops;
  Duration faults_end{};  // also of the failures below
  double commit_fails = 0, spawn_fails = 0, part_fails = 0;
  bool command_missing = false;     // every spawn fails, for good
  bool only_worker_faults() const;  // then stops have a tight bound
};

Plan make_plan(std::uint64_t seed, int nodes);

}  // namespace train::sim
