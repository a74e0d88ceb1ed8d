// A real gdb on a rank of a run: attached by train-run debug, also before the loop begins.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::string calling_job(const Cluster& cluster) {
  return cluster.job("job", "command: [" + program("crashing_worker") +
                                "]\ntrain_loop_config: {how: call}\n"
                                "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}");
}

/// Run a command in a terminal of its own, as a user would.
Process& in_terminal(Cluster& cluster, const std::string& command) {
  return cluster.start({"script", "-qec", command, "/dev/null"});
}

TEST(Debug, AttachesToARankThatWaitsForIt) {
  Cluster cluster;
  Process& run = cluster.train_run({calling_job(cluster), "--wait-for-debugger=1"});
  const std::string said = "trainrun: rank 1 waits for a debugger: train-run debug " +
                           cluster.run_dir("job") + " --rank 1 (or on ";
  ASSERT_TRUE(wait_until([&] { return contains(run.out() + run.err(), said); }))
      << run.out() << run.err();

  Process& debugger = in_terminal(
      cluster, built("train-run") + " debug " + cluster.run_dir("job") +
                   " --rank 1 -- -batch -ex 'break answer' -ex continue -ex 'print x' -ex detach");

  EXPECT_EQ(debugger.wait(), 0);
  EXPECT_THAT(debugger.out(), HasSubstr("train-run: rank 1 is process "));
  EXPECT_THAT(debugger.out(), HasSubstr("$1 = 41"));
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
}

TEST(Debug, TellsTheCommandOfARankThatRuns) {
  Cluster cluster;
  Process& run = start_waiting_worker(cluster);
  ASSERT_TRUE(wait_until([&] { return cluster.worker(0).has_value(); }));

  Process& command = cluster.train_run({"debug", cluster.run_dir("job"), "--rank", "0", "--print"});

  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_THAT(command.out(), MatchesRegex("[a-z]+ (-q )?-p [0-9]+\n"));
  EXPECT_THAT(command.out(), HasSubstr(fmt::format("-p {}\n", cluster.worker(0).value_or(0))));
  Process& missing = cluster.train_run({"debug", cluster.run_dir("job"), "--rank", "7"});
  EXPECT_NE(missing.wait(), 0);
  EXPECT_THAT(missing.err(), HasSubstr("7"));
  Process& without = cluster.train_run(
      {"debug", cluster.run_dir("job"), "--rank", "0", "--debugger", "/no/such/gdb"});
  EXPECT_EQ(without.wait(), 66);
  EXPECT_THAT(without.err(), HasSubstr("/no/such/gdb is not installed here"));
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

TEST(Debug, SaysThatARunIsOver) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({calling_job(cluster)}), 0);

  Process& command = cluster.train_run({"debug", cluster.run_dir("job"), "--rank", "0"});

  EXPECT_EQ(command.wait(), 69);
  EXPECT_THAT(command.err(), HasSubstr("is not running: it has no workers"));
}

TEST(Debug, AResumedRunWaitsToo) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [" + program("crashing_worker") +
                             "]\ntrain_loop_config: {how: kill}\n"
                             "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}");
  ASSERT_EQ(cluster.run({job}), 128 + SIGKILL);

  Process& again =
      cluster.train_run({"resume", cluster.run_dir("job"), "--wait-for-debugger", "--no-fold"});

  EXPECT_TRUE(wait_until([&] {
    return contains(again.out() + again.err(), "trainrun: rank 0 waits for a debugger: ");
  })) << again.out()
      << again.err();
  again.signal(SIGTERM);
  EXPECT_NE(again.wait(), 0);
}

TEST(Debug, RefusesRanksThatAreNone) {
  Cluster cluster;
  Process& run = cluster.train_run({calling_job(cluster), "--wait-for-debugger=x"});

  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("--wait-for-debugger"));
}

}  // namespace
}  // namespace train::e2e
