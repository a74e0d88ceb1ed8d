// A run on as many nodes as there may be: it starts, a rank fails, a node is lost and comes back,
// another one is drained, and the run ends. What each rank costs may not grow with the number of
// ranks: neither in messages, which are counted here, nor in computing, which ctest's time limit
// bounds: with anything quadratic, 65,536 ranks take hours instead of a minute.
#include <gtest/gtest.h>

#include "tests/sim/world.h"

namespace train::sim {
namespace {

constexpr int kRanksPerNode = 8;

Plan plan_of(int nodes) {
  Plan plan;
  plan.nodes = nodes;
  plan.cpus_per_node = kRanksPerNode;
  plan.spec.command = {"./train"};
  const int ranks = nodes * kRanksPerNode;
  plan.spec.scaling_config.num_workers = {ranks / 2, ranks};
  FailureConfig& failure = plan.spec.run_config.failure_config;
  failure.max_failures = 1;
  failure.backoff = {milliseconds(200), seconds(4)};
  plan.habits = {.steps = 11,
                 .step_min = milliseconds(4500),
                 .step_max = milliseconds(5000),
                 .checkpoint_every = 2,
                 .stop_checkpoint = true};
  plan.links.assign(static_cast<std::size_t>(nodes), LinkHabits{});
  plan.faults = {{.at = seconds(8), .kind = FaultKind::CrashWorker, .node = nodes / 3, .pick = 5},
                 {.at = seconds(16),
                  .kind = FaultKind::PowerLoss,
                  .node = nodes / 2,
                  .pick = 0,
                  .length = seconds(18)},
                 {.at = seconds(55),
                  .kind = FaultKind::DrainNode,
                  .node = nodes - 1,
                  .pick = 10000,  // milliseconds of grace
                  .length = std::chrono::hours(1)}};
  plan.faults_end = seconds(65);
  return plan;
}

SimResult run(int nodes) {
  const SimOptions options{.seed = 1, .nodes = nodes, .plan = plan_of(nodes)};
  SimResult result = simulate(options);
  EXPECT_EQ(result.violation, "") << result.describe(options);
  EXPECT_EQ(result.outcome, RunState::Finished);
  // It began, began again after the failure, without the lost node, with it, and without the
  // drained one.
  EXPECT_EQ(result.attempts, 5);
  EXPECT_EQ(result.world_size, (nodes - 1) * kRanksPerNode);
  return result;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNodes = 512;
#else
constexpr int kNodes = 8192;
#endif

TEST(Scale, ARankCostsAsManyMessagesOnThousandsOfNodesAsOnAFew) {
  const SimResult few = run(64), many = run(kNodes);

  const auto each = [](const SimResult& result) {
    return static_cast<double>(result.events) / result.nodes;
  };
  EXPECT_LT(each(many), 1.2 * each(few));
  EXPECT_LT(many.virtual_time, few.virtual_time + seconds(20));
}

}  // namespace
}  // namespace train::sim
