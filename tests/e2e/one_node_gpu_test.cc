// Jobs on the GPUs of a node, and jobs that are to leave them alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class OneNodeGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/nvidiactl", R_OK | W_OK) != 0)
      GTEST_SKIP() << "NOT TESTED: this machine has no GPU";
  }
  std::string job(const std::string& name, const std::string& scaling,
                  const std::string& config = "steps: 4", const std::string& more = "") const {
    return cluster.job(name,
                       fmt::format("command: [{}]\nscaling_config: {{{}}}\n"
                                   "train_loop_config: {{{}}}\n{}",
                                   program("device_worker"), scaling, config, more),
                       "  failure_config: {max_failures: 1}\n");
  }
  std::string last(const std::string& run, const std::string& name) const {
    const auto reports = cluster.metrics(run);
    return reports.empty() ? "(no report)"
                           : text_of(reports.back().at("metrics").as_object(), name);
  }

  Cluster cluster;
};

TEST_F(OneNodeGpu, AJobThatClaimsOneTrainsOnIt) {
  Process& run = cluster.train_run({job("job", "use_gpu: true")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(last("job", "device"), "cuda:0");
  EXPECT_EQ(last("job", "parameters_on"), "cuda:0");
}

TEST_F(OneNodeGpu, AJobThatClaimsNoneTrainsOnTheProcessor) {
  Process& run = cluster.train_run({job("job", "num_workers: 1")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(last("job", "device"), "cpu");
}

TEST_F(OneNodeGpu, AKilledWorkerGoesOnAsIfNothingHadHappened) {
  Process& whole = cluster.train_run({job("whole", "use_gpu: true", "steps: 6")});
  ASSERT_EQ(whole.wait(), 0) << whole.out() << whole.err();

  Process& broken = cluster.train_run({job("broken", "use_gpu: true", "steps: 6, die_step: 3")});

  ASSERT_EQ(broken.wait(), 0) << broken.out() << broken.err();
  EXPECT_EQ(last("broken", "in_attempt"), "1");
  EXPECT_EQ(last("broken", "loss"), last("whole", "loss"));
}

/// One process stands by on the GPU of the worker that is killed.
TEST_F(OneNodeGpu, AProcessThatStoodByTrainsOnTheGpuToo) {
  Process& run =
      cluster.train_run({job("job", "use_gpu: true, standby_workers: 1",
                             "steps: 6, die_step: 3, die_file: '" + cluster.path("go") + "'")});
  ASSERT_TRUE(wait_until([&] { return cluster.standbys().size() == 1; }));
  cluster.write("go", "");

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "(1 from standby)")) << run.out();
  EXPECT_EQ(last("job", "device"), "cuda:0");
  EXPECT_EQ(last("job", "in_attempt"), "1");
}

TEST_F(OneNodeGpu, GpusThatTheShellHidesAreNotOffered) {
  Process& run =
      cluster.train_run({job("job", "use_gpu: true")},
                        {.env = {{"CUDA_VISIBLE_DEVICES", "-1"}}, .prefix = {}, .cwd = ""});

  EXPECT_EQ(run.wait(), 69) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "GPU 0 (room for 0)")) << run.out() << run.err();
}

TEST_F(OneNodeGpu, TwoWorkersShareAGpuOverGlooOnly) {
  Process& refused = cluster.train_run(
      {job("nccl", "num_workers: 2", "steps: 2", "env: {CUDA_VISIBLE_DEVICES: '0'}\n")});
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_TRUE(contains(refused.out() + refused.err(), "two workers share a GPU"))
      << refused.out() << refused.err();

  Process& shared = cluster.train_run(
      {job("gloo", "num_workers: 2", "steps: 2",
           "env: {CUDA_VISIBLE_DEVICES: '0'}\nbackend_config: {collectives: gloo}\n")});

  ASSERT_EQ(shared.wait(), 0) << shared.out() << shared.err();
  EXPECT_EQ(last("gloo", "device"), "cuda:0");
}

}  // namespace
}  // namespace train::e2e
