// How many pods a job gets, and what each claims.
#include "launcher/kubernetes/pod_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train {
namespace {

ScalingConfig workers(int count, double cpu = 2, double gpu = 0) {
  ScalingConfig scaling;
  scaling.num_workers = {count, count};
  scaling.use_gpu = gpu > 0;
  scaling.resources_per_worker = {.cpu = cpu, .gpu = gpu, .memory_bytes = 1u << 30};
  return scaling;
}

ScalingConfig automatic(double gpu) {
  ScalingConfig scaling = workers(1, 2, gpu);
  scaling.num_workers.automatic = true;
  return scaling;
}

KubernetesOptions nodes(int pods, int gpus_per_node = 0) {
  return {.nodes = pods, .gpus_per_node = gpus_per_node};
}

/// "4 pods of 8 workers, 16 cores, 8 GPUs, 8 GiB", or the error.
std::string said(const ScalingConfig& scaling, const KubernetesOptions& options) {
  const auto plan = plan_pods(scaling, options);
  if (!plan) return plan.error().message + " | " + plan.error().hint;
  return fmt::format("{} pods of {} workers, {} cores, {} GPUs, {} GiB", plan->pods,
                     plan->workers_per_pod, plan->workers_claim.cpu, plan->gpus,
                     plan->workers_claim.memory_bytes >> 30);
}

TEST(PodPlan, TheGpusOfANodeSayHowManyPodsThereAre) {
  EXPECT_EQ(said(workers(32, 2, 1), nodes(0, 8)), "4 pods of 8 workers, 16 cores, 8 GPUs, 8 GiB");
  EXPECT_EQ(said(workers(33, 2, 1), nodes(0, 8)), "5 pods of 8 workers, 16 cores, 8 GPUs, 8 GiB");
  EXPECT_EQ(said(workers(6, 2, 3), nodes(0, 8)), "3 pods of 2 workers, 4 cores, 8 GPUs, 2 GiB");
  EXPECT_EQ(said(workers(8, 2, 0.5), nodes(0, 2)), "2 pods of 4 workers, 8 cores, 2 GPUs, 4 GiB");
  EXPECT_EQ(said(workers(2, 2, 1), nodes(0, 8)), "1 pods of 2 workers, 4 cores, 8 GPUs, 2 GiB");
}

TEST(PodPlan, NodesSayHowManyWorkersEachHas) {
  EXPECT_EQ(said(workers(5), nodes(2)), "2 pods of 3 workers, 6 cores, 0 GPUs, 3 GiB");
  EXPECT_EQ(said(workers(2), nodes(3)), "3 pods of 1 workers, 2 cores, 0 GPUs, 1 GiB");
  EXPECT_EQ(said(workers(3, 2, 0.5), nodes(2)), "2 pods of 2 workers, 4 cores, 1 GPUs, 2 GiB");
}

TEST(PodPlan, TheSpecSaysHowManyWorkersANodeHas) {
  ScalingConfig scaling = workers(8);
  scaling.workers_per_node = 4;
  EXPECT_EQ(said(scaling, nodes(0)), "2 pods of 4 workers, 8 cores, 0 GPUs, 4 GiB");
  EXPECT_EQ(said(scaling, nodes(3)), "3 pods of 4 workers, 8 cores, 0 GPUs, 4 GiB");
  EXPECT_EQ(
      said(scaling, nodes(1)),
      "--nodes is 1, and that many pods of 4 workers hold 4 of the 8 | leave it out, or raise "
      "it");
  scaling = workers(8);
  scaling.placement_strategy = PlacementStrategy::StrictSpread;
  EXPECT_EQ(said(scaling, nodes(0)), "8 pods of 1 workers, 2 cores, 0 GPUs, 1 GiB");
  scaling.placement_strategy = PlacementStrategy::StrictPack;
  EXPECT_EQ(said(scaling, nodes(0)), "1 pods of 8 workers, 16 cores, 0 GPUs, 8 GiB");
}

TEST(PodPlan, AnElasticRunGetsThePodsOfItsLargestGroup) {
  ScalingConfig scaling = workers(8, 2, 1);
  scaling.num_workers = {4, 16};
  EXPECT_EQ(said(scaling, nodes(0, 8)), "2 pods of 8 workers, 16 cores, 8 GPUs, 8 GiB");
}

TEST(PodPlan, AutomaticWorkersFollowTheGpus) {
  EXPECT_EQ(said(automatic(2), nodes(4, 8)), "4 pods of 4 workers, 8 cores, 8 GPUs, 4 GiB");
  EXPECT_EQ(said(automatic(1), nodes(0, 8)),
            "scaling_config.num_workers is auto | say how many GPUs there are, by --nodes and "
            "--gpus-per-node");
  EXPECT_EQ(
      said(automatic(0), nodes(4)),
      "scaling_config.num_workers is auto, and how many cores a pod gets follows from it | say "
      "how many, such as --set scaling_config.num_workers=8");
  EXPECT_EQ(said(automatic(9), nodes(4, 8)),
            "4 nodes of 8 GPUs give 0 workers of 9 GPUs, not 1 to 65536 | change --nodes or "
            "--gpus-per-node");
  EXPECT_EQ(
      said(automatic(0.01), nodes(10'000, 1024)),
      "10000 nodes of 1024 GPUs give 1024000000 workers of 0.01 GPUs, not 1 to 65536 | change "
      "--nodes or --gpus-per-node");
}

TEST(PodPlan, OneWorkerNeedsOnePod) {
  EXPECT_EQ(said(workers(1), nodes(0)), "1 pods of 1 workers, 2 cores, 0 GPUs, 1 GiB");
}

TEST(PodPlan, WhatIsOpenIsAsked) {
  EXPECT_EQ(said(workers(4), nodes(0)),
            "it is open on how many pods the 4 workers run | add --nodes");
  EXPECT_EQ(said(workers(4, 2, 1), nodes(0)),
            "it is open on how many pods the 4 workers run | add --nodes or --gpus-per-node");
}

TEST(PodPlan, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(said(workers(4), nodes(0, 8)),
            "--gpus-per-node is 8, and the job's workers use no GPUs | set scaling_config.use_gpu, "
            "or leave the option out");
  EXPECT_EQ(said(workers(16, 2, 1), nodes(1, 8)),
            "a pod of 16 workers needs 16 GPUs, more than 8 | change --nodes or --gpus-per-node");
  EXPECT_EQ(said(workers(4, 2, 16), nodes(0, 8)),
            "a pod of 1 workers needs 16 GPUs, more than 8 | change --nodes or --gpus-per-node");
  EXPECT_EQ(said(workers(2048, 2, 1), nodes(1)),
            "a pod of 2048 workers needs 2048 GPUs, more than 1024 | have more --nodes");
  EXPECT_EQ(said(workers(65'536, 2, 1), nodes(0, 1)),
            "the job needs 65536 pods, more than 10000 | have more workers on each");
  ScalingConfig large = workers(4);
  large.resources_per_worker.memory_bytes = 1'000'000'000'000'000'000;
  EXPECT_EQ(
      said(large, nodes(1)),
      "4 workers of 1000000000000000000 bytes of memory are more than any pod can have | lower "
      "scaling_config.resources_per_worker.memory");
}

}  // namespace
}  // namespace train
