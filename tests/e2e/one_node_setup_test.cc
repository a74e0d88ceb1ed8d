// What runs before the workers: `setup`, once a run on the launcher's machine, and per_node_setup,
// once on each node.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class Setups : public testing::Test {
 protected:
  std::string job(const std::string& setup, const std::string& command,
                  const std::string& failure_config = "{}") const {
    return cluster.job("job",
                       fmt::format("command: {}\n{}\nscaling_config: {{num_workers: 2, "
                                   "resources_per_worker: {{CPU: 0}}}}\n",
                                   command, setup),
                       "  failure_config: " + failure_config + "\n");
  }
  std::string in_run(const std::string& path) const {
    return cluster.read(cluster.run_dir("job") + "/" + path);
  }
  /// Return the log of the only node's setup.
  std::string node_log(int attempt = 0) const {
    const std::string nodes =
        fmt::format("{}/attempts/{:03}/nodes", cluster.run_dir("job"), attempt);
    std::string text;
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(nodes, ec))
      text += cluster.read(entry.path().string() + "/setup.log");
    return text;
  }
  std::size_t lines(const std::string& file) const {
    const std::string text = cluster.read(cluster.path(file));
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  Cluster cluster;
};

constexpr const char* kBoth =
    "setup: ['echo set-up >> run-setups; echo $TRAINRUN_RUN_NAME', [sh, -c, 'test -f "
    "run-setups']]\n"
    "per_node_setup: {command: 'echo node says $TRAINRUN_RUN_NAME; echo x >> node-setups', "
    "timeout: 5m}";

TEST_F(Setups, BothRunBeforeTheWorkersAndOnlyOnceAlsoWhenWorkersRestart) {
  const std::string path = job(
      kBoth, "'test -f run-setups && test -f node-setups && test $TRAINRUN_ATTEMPT = 2 || exit 3'",
      "{max_failures: 2, backoff: {initial: 10ms}}");
  Process& run = cluster.train_run({path});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  EXPECT_EQ(lines("run-setups"), 1u);
  EXPECT_EQ(lines("node-setups"), 1u);
  EXPECT_TRUE(contains(in_run("setup.log"), "\njob\n")) << in_run("setup.log");
  EXPECT_TRUE(node_log().starts_with("node says job\n[trainrun: it succeeded after "))
      << node_log();
  EXPECT_EQ(node_log(1), "");
  EXPECT_TRUE(contains(run.out(), "setup: echo set-up >> run-setups")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Setups, NeitherRunsAgainForALauncherThatResumesTheRun) {
  const std::string command = fmt::format("[{}, touch, up, wait-for, go]", program("plain_worker"));
  Process& first = cluster.train_run({job(kBoth, command, "{max_failures: 5}")});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("up")); })) << first.out() << first.err();
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  for (const pid_t pid : cluster.worker_pids()) send_signal(pid, SIGKILL);  // they begin anew
  cluster.write("go", "");

  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_EQ(lines("run-setups"), 1u);
  EXPECT_EQ(lines("node-setups"), 1u);
}

TEST_F(Setups, ASetupWhoseLauncherWasKilledDiesAndRunsAgain) {
  const std::string path =
      job("setup: ['echo x >> begun; test -f go || exec sleep 1000']", "'true'");
  Process& first = cluster.train_run({path});
  ASSERT_TRUE(wait_until([&] { return lines("begun") == 1; })) << first.out() << first.err();
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  EXPECT_TRUE(wait_until([&] { return cluster.processes("sleep 1000").empty(); }));
  cluster.write("go", "");

  EXPECT_EQ(cluster.run({"resume", cluster.run_dir("job")}), 0);
  EXPECT_EQ(lines("begun"), 2u);
}

TEST_F(Setups, OneThatFailsEndsTheRunWithItsLastLines) {
  Process& run = cluster.train_run(
      {job("setup: ['echo fetching; echo no such host >&2; exit 7', 'echo > never']", "'true'")});
  EXPECT_EQ(run.wait(), 1);

  const std::string log = cluster.run_dir("job") + "/setup.log";
  EXPECT_TRUE(contains(run.out(),
                       "setup: 'echo fetching; echo no such host >&2; exit 7' exited with 7: no "
                       "such host\n"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "    | fetching\n    | no such host\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), log)) << run.out();
  EXPECT_TRUE(contains(cluster.read(log), "fetching\nno such host\n"));
  EXPECT_FALSE(exists(cluster.path("never")));
  EXPECT_EQ(text_of(cluster.exit_json("job"), "outcome"), "failed");
  EXPECT_TRUE(cluster.workers().empty());
  EXPECT_TRUE(nothing_left(cluster));

  // Whoever resumes the run tries it again.
  EXPECT_EQ(cluster.run({"resume", cluster.run_dir("job"), "--set", "setup=['true']"}), 0);
}

TEST_F(Setups, CtrlCEndsTheSetup) {
  Process& run = cluster.train_run({job("setup: ['echo > up; sleep 1000']", "'true'")});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("up")); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(cluster.processes("sleep 1000").empty());
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Setups, ANodesSetupThatFailsIsAStartFailureThatMayBeTriedAgain) {
  const std::string path = job(
      "per_node_setup: {command: 'echo x >> tries; echo out of space; test -f run-again || { touch "
      "run-again; exit 9; }'}",
      "'true'", "{max_start_failures: 1, backoff: {initial: 10ms}}");
  Process& run = cluster.train_run({path});
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  EXPECT_EQ(lines("tries"), 2u);
  EXPECT_TRUE(contains(run.out(), "per_node_setup: it exited with 9: out of space")) << run.out();
  EXPECT_TRUE(
      contains(run.out(), "; its output is in " + cluster.run_dir("job") + "/attempts/000/nodes/"))
      << run.out();
  EXPECT_TRUE(
      node_log(0).starts_with("out of space\n[trainrun: per_node_setup: it exited with 9: out of"))
      << node_log(0);
  EXPECT_TRUE(node_log(1).starts_with("out of space\n[trainrun: it succeeded")) << node_log(1);
}

TEST_F(Setups, ANodesSetupThatTakesTooLongIsKilled) {
  Process& run = cluster.train_run(
      {job("per_node_setup: {command: 'echo slow; sleep 1000', timeout: 1s}", "'true'")});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(run.out(),
                       "per_node_setup: it took longer than 1.0 s: slow (raise "
                       "per_node_setup.timeout)"))
      << run.out();
  EXPECT_TRUE(cluster.processes("sleep 1000").empty());
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Setups, AStopEndsTheSetupOfNodes) {
  Process& run =
      cluster.train_run({job("per_node_setup: {command: 'echo > up; exec sleep 1000'}", "'true'")});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("up")); }));
  EXPECT_EQ(cluster.run({"stop", cluster.run_dir("job")}), 0);
  EXPECT_EQ(run.wait(), 130) << run.out();
  EXPECT_TRUE(wait_until([&] { return cluster.processes("sleep 1000").empty(); }));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Setups, KeysThatRayHasRemovedAreRefusedByName) {
  Process& run = cluster.train_run(
      {cluster.job("job", "command: 'true'\npreprocess_datasets: true", "  verbose: 1\n")});
  EXPECT_EQ(run.wait(), 78);
  EXPECT_TRUE(contains(run.err(), "preprocess_datasets is not offered")) << run.err();
  EXPECT_TRUE(contains(run.err(), "removed in Ray, too: use datasets.NAME.preprocessors"))
      << run.err();
  EXPECT_TRUE(contains(run.err(), "run_config.verbose is not offered")) << run.err();
}

}  // namespace
}  // namespace train::e2e
