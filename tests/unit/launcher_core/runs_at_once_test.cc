// How many trials of a sweep a node takes at the same time.
#include "launcher/core/runs_at_once.h"

#include <gtest/gtest.h>

namespace train {
namespace {

JobSpec job(int workers, double cpu, double gpu) {
  JobSpec spec;
  spec.scaling_config.num_workers = {workers, workers};
  spec.scaling_config.resources_per_worker.cpu = cpu;
  spec.scaling_config.resources_per_worker.gpu = gpu;
  return spec;
}

NodeCapacity node(double cpu, int gpus) {
  NodeCapacity node;
  node.total.cpu = cpu;
  node.total.gpu = gpus;
  node.total.memory_bytes = 64ull << 30;
  for (int i = 0; i < gpus; ++i)
    node.gpus.push_back({std::to_string(i), "GPU-" + std::to_string(i), true});
  return node;
}

TEST(RunsAtOnce, AreAsManyAsTheirClaimsFit) {
  EXPECT_EQ(runs_at_once(job(2, 1, 0), node(8, 0)), 4);
  EXPECT_EQ(runs_at_once(job(2, 1, 1), node(64, 8)), 4);
  EXPECT_EQ(runs_at_once(job(1, 0.1, 0), node(1, 0)), 10);
  EXPECT_EQ(runs_at_once(job(4, 0, 0), node(8, 0)), 8) << "one for each core";
  EXPECT_EQ(runs_at_once(job(16, 1, 0), node(8, 0)), 1) << "it says itself that it does not fit";
  EXPECT_EQ(runs_at_once(job(1, 1e-9, 0), node(8, 0)), 1024);
  JobSpec large = job(1, 1, 0);
  large.scaling_config.resources_per_worker.memory_bytes = 20ull << 30;
  EXPECT_EQ(runs_at_once(large, node(64, 0)), 3);
}

TEST(RunsAtOnce, ShareNoGpu) {
  EXPECT_EQ(runs_at_once(job(1, 1, 0.5), node(64, 8)), 8);
  EXPECT_EQ(runs_at_once(job(2, 1, 0.5), node(64, 8)), 8);
  EXPECT_EQ(runs_at_once(job(3, 1, 0.5), node(64, 8)), 4);
  EXPECT_EQ(runs_at_once(job(5, 1, 0.4), node(64, 8)), 2);
}

TEST(RunsAtOnce, HaveOnlyTheGpusThatTheSpecChooses) {
  JobSpec spec = job(1, 1, 1);
  spec.scaling_config.gpus = {"0", "GPU-3", "99"};
  EXPECT_EQ(runs_at_once(spec, node(64, 8)), 2);
}

TEST(RunsAtOnce, OfWhichEachTakesAllThereIsAreOne) {
  JobSpec spec = job(1, 1, 0);
  spec.scaling_config.num_workers = {.automatic = true};
  EXPECT_EQ(runs_at_once(spec, node(8, 0)), 1);
}

}  // namespace
}  // namespace train
