// Jobs on the GPUs of a node, and jobs that are to leave them alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "lib/samples/sample_reader.h"
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
                  const std::string& config = "steps: 4", const std::string& more = "",
                  const std::string& failures = "max_failures: 1") const {
    return cluster.job(name,
                       fmt::format("command: [{}]\nscaling_config: {{{}}}\n"
                                   "train_loop_config: {{{}}}\n{}",
                                   program("device_worker"), scaling, config, more),
                       "  failure_config: {" + failures + "}\n");
  }
  /// Return what NVML says of the GPU of rank 0 now; none before it was asked.
  std::optional<SampleTable> gpus(const std::string& run) const {
    auto tables = read_newest_samples(cluster.run_dir(run) + "/.samples.now.jsonl");
    if (!tables) return std::nullopt;
    for (SampleTable& table : *tables)
      if (table.kind == SampleKind::Gpus) return std::move(table);
    return std::nullopt;
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

/// The loop waits for work of the GPU that does not end: a kernel that hangs looks the same.
TEST_F(OneNodeGpu, AWorkerThatHangsOnItsGpuIsNamedAndStartedAnew) {
  Process& run = cluster.train_run({job("job", "use_gpu: true", "steps: 6, hang_step: 3", "",
                                        "max_failures: 1, hang_timeout: 5s")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  const std::string said = run.out() + run.err();
  EXPECT_TRUE(contains(said, "hangs in step: no sign of life for")) << said;
  EXPECT_EQ(last("job", "in_attempt"), "1");
  std::string stacks;
  for (const auto& entry :
       std::filesystem::directory_iterator(cluster.run_dir("job") + "/attempts/000/stacks")) {
    if (entry.path().string().ends_with(".txt")) stacks += cluster.read(entry.path().string());
  }
  EXPECT_TRUE(contains(stacks, "wait_for_the_device")) << stacks;
  EXPECT_TRUE(contains(stacks, "libcuda.so")) << stacks;
}

/// By the driver's own library, and as `train-run status` says it.
TEST_F(OneNodeGpu, WhatItsGpuDoesIsMeasured) {
  Process& run = cluster.train_run({job(
      "job", "use_gpu: true", "steps: 2, busy_step: 1, busy_file: '" + cluster.path("go") + "'")});
  const auto reading = [&](const char* field) {
    const auto table = gpus("job");
    return table && !table->rows.empty() ? table->number(field, 0) : -1;
  };
  ASSERT_TRUE(wait_until([&] { return reading("use") > 0.5; })) << run.out() << run.err();

  const auto table = gpus("job");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->text("state", 0), "ok");
  EXPECT_EQ(table->text("ranks", 0), "0");
  EXPECT_GT(reading("memory"), 1e9);
  EXPECT_GT(reading("memory_used"), 1e8);
  EXPECT_LT(reading("memory_used"), reading("memory"));
  EXPECT_GT(reading("power_w"), 10);
  EXPECT_GT(reading("temperature_c"), 10);
  EXPECT_LT(reading("temperature_c"), 120);
  EXPECT_EQ(table->text("foreign", 0), "");
  Process& status = cluster.train_run({"status", cluster.run_dir("job")});
  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), " %, ") && contains(status.out(), "GiB")) << status.out();
  cluster.write("go", "");

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
}

}  // namespace
}  // namespace train::e2e
