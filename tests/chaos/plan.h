// Decides from a seed the shape of each round and which fault comes next. It is pure: the same seed
// gives the same plan, but a fault may hit its target at a different moment.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace train::chaos {

enum class Fault {
  KillWorker,
  KillSupervisor,
  KillDaemon,
  KillLauncher,
  LoseNode,  // all of its processes, and its link
  StopWorker,
  StopSupervisor,
  StopDaemon,
  StopLauncher,
  CutLink,
  DeafenNode,  // packets to it are lost
  MuteNode,    // packets from it are lost
  LosePackets,
  DelayLink,
  ResetLink,
  DrainNode,
  StepClock,
  KillDriver,
  StopDriver,
};
std::string_view to_string(Fault fault);

/// The shape of one run without faults.
struct Shape {
  static constexpr int kNodes = 4, kWorkersOfNode = 2;
  int workers_min = 6, workers_max = 6;  // equal: not elastic
  std::int64_t steps = 0;
  int step_ms = 20;
  std::int64_t checkpoint_every = 50;
  int standbys = 0;
  bool agrees = false;      // a collective before each checkpoint
  bool relayed = false;     // a relay is between the launcher and all nodes
  bool fake_clock = false;  // for the launcher and the workers
  int pace = 0;             // of a driver, which the launcher has then; 0: it has none

  bool elastic() const { return workers_min != workers_max; }
  double seconds() const { return static_cast<double>(steps) * step_ms / 1000; }
};

struct PlannedFault {
  Fault fault = Fault::KillWorker;
  int node = 0;
  std::uint32_t pick = 0;  // chooses among several targets
  double seconds = 0;      // until the fault is undone
  int amount = 0;          // percent of packets, milliseconds of delay, or seconds of a clock step
};

struct PlanOptions {
  std::uint64_t seed = 1;
  bool kills_only = false;  // kill one process at a time, a minute apart
  bool clock_can_be_faked = true;
};

class RoundPlan {
 public:
  /// `seconds`: length of the run without faults.
  RoundPlan(const PlanOptions& options, int round, double seconds);

  const Shape& shape() const { return shape_; }
  PlannedFault next();

 private:
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  std::mt19937_64 random_;
  Shape shape_;
  std::vector<Fault> possible_;
};

}  // namespace train::chaos
