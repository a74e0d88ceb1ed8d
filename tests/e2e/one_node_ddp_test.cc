// Of a model that train::prepare_model() has made data parallel, all ranks take equally long for a
// step, since they wait for the slowest in the backward pass: that one is named all the same.
#include <gtest/gtest.h>
#include <signal.h>

#include <regex>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string ddp(const Cluster& cluster, int workers, const std::string& config,
                const std::string& failure_config = "") {
  return cluster.job("job",
                     "command: [" + program("ddp_worker") + "]\ntrain_loop_config: {" + config +
                         "}\nscaling_config: {num_workers: " + std::to_string(workers) +
                         ", resources_per_worker: {CPU: 0}}",
                     failure_config.empty() ? "" : "  failure_config: {" + failure_config + "}");
}

TEST(Ddp, TheRankThatTheOthersWaitForIsNamedSlow) {
  Cluster cluster;
  Process& run = cluster.train_run({ddp(cluster, 6, "step_ms: 10, slow_rank: 2, slow_ms: 20")});
  const auto named = [&] {
    for (const auto& record : cluster.journal("job"))
      if (text_of(record, "event") == "straggler") return text_of(record, "ranks");
    return std::string();
  };
  ASSERT_TRUE(wait_until([&] { return !named().empty(); })) << run.out() << run.err();
  run.signal(SIGINT);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);

  EXPECT_EQ(named(), "[2]");
  const std::string said = run.out() + run.err();
  EXPECT_TRUE(std::regex_search(
      said, std::regex(R"(rank 2 on \S+ is slow: \d+ % behind the median in step for )")))
      << said;
}

TEST(Ddp, TheRankThatDoesNotComeToTheBackwardPassIsBlamed) {
  Cluster cluster;
  EXPECT_EQ(cluster.run({ddp(cluster, 3, "hang_at: 20", "hang_timeout: 5s")}), 1);
  const std::string cause = text_of(cluster.exit_json("job"), "cause");
  EXPECT_TRUE(cause.starts_with("rank 1 on ")) << cause;
}

// LibTorch's group of the first run ends with it: the second one makes its own.
TEST(Ddp, WorkersThatStayTrainAgain) {
  Cluster cluster;
  Process& driver = cluster.start(
      {"python3", TRAIN_SOURCE_DIR "/tests/e2e/programs/warm_command.py", program("ddp_worker")},
      {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
               {"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
               {"PYTHONDONTWRITEBYTECODE", "1"},
               {"RUNS", cluster.storage()},
               {"GO", cluster.path("go")}},
       .prefix = {},
       .cwd = ""});
  const auto succeeded = [&](std::size_t runs) {
    std::size_t count = 0;
    const std::string out = driver.out();
    for (std::size_t at = 0; (at = out.find("outcome succeeded", at)) != std::string::npos; ++at)
      ++count;
    return count >= runs;
  };
  ASSERT_TRUE(wait_until([&] { return succeeded(1) || !driver.running(); }));
  const std::set<pid_t> workers = cluster.worker_pids();
  EXPECT_EQ(workers.size(), 2u) << driver.out() << driver.err();
  cluster.write("go1", "");
  ASSERT_TRUE(wait_until([&] { return succeeded(2) || !driver.running(); }));
  EXPECT_EQ(cluster.worker_pids(), workers);
  cluster.write("go2", "");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(nothing_left(cluster));
}

}  // namespace
}  // namespace train::e2e
