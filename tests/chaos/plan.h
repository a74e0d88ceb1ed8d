// What a seed decides: the shape of each round, and which fault comes next. Pure; the same seed
// gives the same plan, though not the same instant in the life of what it hits.
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
  LoseNode,  // all of its processes and its link
  StopWorker,
  StopSupervisor,
  StopDaemon,
  StopLauncher,
  CutLink,
  DeafenNode,  // what is sent to it is lost
  MuteNode,    // what it sends is lost
  LosePackets,
  DelayLink,
  ResetLink,
  DrainNode,
  StepClock,
};
std::string_view to_string(Fault fault);

/// One run, as it would go without faults.
struct Shape {
  static constexpr int kNodes = 4, kWorkersOfNode = 2;
  int workers_min = 6, workers_max = 6;  // the same: not elastic
  std::int64_t steps = 0;
  int step_ms = 20;
  std::int64_t checkpoint_every = 50;
  int standbys = 0;
  bool agrees = false;      // a collective before each checkpoint
  bool relayed = false;     // between the launcher and all nodes
  bool fake_clock = false;  // of the launcher and the workers

  bool elastic() const { return workers_min != workers_max; }
  double seconds() const { return static_cast<double>(steps) * step_ms / 1000; }
};

struct PlannedFault {
  Fault fault = Fault::KillWorker;
  int node = 0;
  std::uint32_t pick = 0;  // among several that it could hit
  double seconds = 0;      // until it is undone
  int amount = 0;          // percent of packets, milliseconds of delay, seconds of a clock's step
};

struct PlanOptions {
  std::uint64_t seed = 1;
  bool kills_only = false;  // of one process at a time, a minute apart
  bool clock_can_be_faked = true;
};

class RoundPlan {
 public:
  /// `seconds`: how long the run is without faults.
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
