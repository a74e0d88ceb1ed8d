#include "tests/sim/faults.h"

#include <algorithm>

namespace train::sim {
namespace {

void choose_spec(Plan& plan, Random& random) {
  JobSpec& spec = plan.spec;
  spec.command = {"./train"};
  const int capacity = plan.nodes * static_cast<int>(plan.cpus_per_node);
  const int wanted = random.between(1, std::min(capacity, 2 * plan.nodes + 2));
  spec.scaling_config.num_workers = {random.chance(0.3) ? std::max(1, wanted / 2) : wanted, wanted};
  spec.scaling_config.placement_strategy =
      random.chance(0.5) ? PlacementStrategy::Pack : PlacementStrategy::Spread;
  FailureConfig& failure = spec.run_config.failure_config;
  failure.max_failures = random.chance(0.2) ? kUnlimited : random.between(0, 4);
  failure.max_start_failures = random.between(0, 3);
  failure.stop_grace = seconds(random.between(2, 10));
  failure.orphan_timeout = seconds(random.between(15, 40));
  failure.backoff = {milliseconds(200), seconds(4)};
  if (random.chance(0.2))
    spec.run_config.stop = {{"epoch", static_cast<double>(random.between(2, 8))}};
}

void choose_habits(Plan& plan, Random& random) {
  Habits& habits = plan.habits;
  habits.has_sdk = random.chance(0.9);
  habits.steps = random.between(1, 12);
  habits.step_min = milliseconds(random.between(1, 100));
  habits.step_max = habits.step_min + milliseconds(random.between(0, 800));
  habits.checkpoint_every = random.between(0, 3);
  habits.barrier_every = random.chance(0.5) ? 1 : random.between(0, 3);
  habits.stop_checkpoint = random.chance(0.5);
  habits.traps_term = random.chance(0.3) ? 0.5 : 0;
  habits.slow_to_term = random.chance(0.3) ? 0.3 : 0;
  if (random.chance(0.3)) plan.commit_fails = 0.3;
  if (random.chance(0.3)) plan.spawn_fails = 0.1;
  if (random.chance(0.2)) plan.part_fails = 0.1;
  plan.command_missing = random.chance(0.02);
}

FaultKind choose_kind(Random& random, bool only_workers) {
  static constexpr FaultKind kKinds[] = {FaultKind::CrashWorker,     FaultKind::CrashWorker,
                                         FaultKind::CrashSupervisor, FaultKind::CrashDaemon,
                                         FaultKind::ResetLink,       FaultKind::ResetLink,
                                         FaultKind::CutNode,         FaultKind::StaleLauncher};
  return only_workers ? FaultKind::CrashWorker : kKinds[random.below(std::size(kKinds))];
}

void choose_faults(Plan& plan, Random& random) {
  static constexpr StopKind kStops[] = {StopKind::Interrupt, StopKind::Terminate,
                                        StopKind::Command};
  const bool only_workers = random.chance(0.3);
  const int count = random.chance(0.15) ? 0 : random.between(1, 8);
  const int spread_ms = random.chance(0.5) ? 4000 : 20000;
  for (int i = 0; i < count; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(0, spread_ms)),
                           .kind = choose_kind(random, only_workers),
                           .node = random.between(0, plan.nodes - 1),
                           .pick = static_cast<int>(random.below(1u << 20)),
                           .length = milliseconds(random.chance(0.3) ? random.between(8000, 60000)
                                                                     : random.between(1, 8000))});
  }
  if (random.chance(0.3)) {
    plan.stops.push_back({milliseconds(random.between(0, 8000)), kStops[random.below(3)]});
    if (random.chance(0.3))
      plan.stops.push_back(
          {plan.stops[0].at + milliseconds(random.between(1, 3000)), kStops[random.below(3)]});
  }
  if (random.chance(0.1)) {  // only somebody who asks it to stop ends a run that hangs
    plan.faults.push_back({.at = milliseconds(random.between(0, 3000)),
                           .kind = FaultKind::HangWorker,
                           .node = 0,
                           .pick = 0,
                           .length = {}});
    plan.stops.push_back({seconds(6), StopKind::Interrupt});
  }
  plan.faults_end = seconds(1);
  for (const Fault& fault : plan.faults)
    plan.faults_end = std::max(plan.faults_end, fault.at + fault.length);
  plan.faults_end = std::max<Duration>(plan.faults_end, seconds(10));
}

// Every tenth seed: links that break many times while workers report fast.
void add_storm(Plan& plan, Random& random) {
  plan.habits.steps = 400;
  plan.habits.step_min = milliseconds(1);
  plan.habits.step_max = milliseconds(4);
  plan.habits.checkpoint_every = 20;
  for (int i = 0; i < 30; ++i) {
    plan.faults.push_back({.at = milliseconds(random.between(50, 2000)),
                           .kind = FaultKind::ResetLink,
                           .node = random.between(0, plan.nodes - 1),
                           .pick = 0,
                           .length = {}});
  }
}

}  // namespace

bool Plan::only_worker_faults() const {
  return std::all_of(faults.begin(), faults.end(), [](const Fault& f) {
    return f.kind == FaultKind::CrashWorker || f.kind == FaultKind::HangWorker;
  });
}

Plan make_plan(std::uint64_t seed, int nodes) {
  Random random(seed * 7919 + 17);
  Plan plan;
  plan.seed = seed;
  plan.nodes = nodes;
  plan.cpus_per_node = random.between(2, 6);
  choose_spec(plan, random);
  choose_habits(plan, random);
  choose_faults(plan, random);
  if (seed % 10 == 7) add_storm(plan, random);
  return plan;
}

}  // namespace train::sim
