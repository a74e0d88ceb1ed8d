// per_node_setup with several nodes, each a network namespace: once on each, whatever its workers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

class MultiNodeSetup : public ThreeNodes {
 protected:
  Process& run(const std::string& setup, const std::string& command, const std::string& scaling,
               const std::string& more = "", const std::string& run_config = "") const {
    return nodes->train_run(
        cluster->job("job",
                     fmt::format("command: {}\nper_node_setup: {{command: '{}'}}\n"
                                 "scaling_config: {}\n{}",
                                 command, setup, scaling, more),
                     run_config),
        2);
  }
  /// Return each line of the file of a setup.
  std::multiset<std::string> lines(const std::string& file) const {
    std::multiset<std::string> lines;
    std::istringstream text(cluster->read(cluster->path(file)));
    for (std::string line; std::getline(text, line);) lines.insert(line);
    return lines;
  }
  std::string log_of(int attempt, int node) const {
    return cluster->read(fmt::format("{}/attempts/{:03}/nodes/n{}/setup.log",
                                     cluster->run_dir("job"), attempt, node));
  }
  /// Return a condition for the shell: this is that node.
  std::string on_node(int node) const {
    return fmt::format("ip -o addr show | grep -qF \" {}/\"", network->address(node));
  }
};

TEST_F(MultiNodeSetup, RunsOnceOnEachNodeBeforeAnyWorkerAndNotForALaterAttempt) {
  nodes->start(0);
  nodes->start(1);
  Process& job = run("readlink /proc/self/ns/net | tee -a setups",
                     "'test $(wc -l < setups) = 2 || exit 3; test $TRAINRUN_ATTEMPT = 1'",
                     "{num_workers: 4}", "", "  failure_config: {max_failures: 1}\n");

  EXPECT_EQ(job.wait(), 0) << job.out() << job.err();
  const auto setups = lines("setups");
  EXPECT_EQ(setups.size(), 2u);
  EXPECT_EQ(std::set(setups.begin(), setups.end()).size(), 2u) << "one on each node";
  for (const int node : {0, 1}) {
    EXPECT_TRUE(log_of(0, node).starts_with("net:[")) << log_of(0, node);
    EXPECT_TRUE(contains(log_of(0, node), "]\n[trainrun: it succeeded after ")) << log_of(0, node);
    EXPECT_EQ(log_of(1, node), "");
  }
}

// The node tells each launcher how its setup ended.
TEST_F(MultiNodeSetup, TheLogHasItsOutputOnceAlsoAfterAnotherLauncher) {
  nodes->start(0);
  nodes->start(1);
  Process& job = run("echo up", "'while [ ! -e go ]; do sleep 0.02; done'", "{num_workers: 2}");
  ASSERT_TRUE(wait_until([&] { return !cluster->worker_pids().empty(); })) << job.err();
  ASSERT_TRUE(wait_until([&] { return contains(log_of(0, 0), "it succeeded"); })) << job.err();
  job.signal(SIGKILL);
  ASSERT_EQ(job.wait(), 137);

  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(wait_until([&] { return contains(resumed.out(), "nothing is restarted"); }))
      << resumed.out() << resumed.err();
  cluster->write("go", "");
  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  const std::string log = log_of(0, 0);
  EXPECT_EQ(log.find("it succeeded"), log.rfind("it succeeded")) << log;
}

TEST_F(MultiNodeSetup, AFailureOnOneNodeIsThatNodesAndEndsTheOthers) {
  nodes->start(0);
  nodes->start(1);
  Process& job = run(on_node(1) + " && { echo no room; exit 4; }; echo > up; exec sleep 1000",
                     "'echo > started'", "{num_workers: 2, placement_strategy: STRICT_SPREAD}");

  EXPECT_EQ(job.wait(), 1) << job.out() << job.err();
  EXPECT_TRUE(contains(job.out(), "per_node_setup failed on n1; its output is in ")) << job.out();
  EXPECT_TRUE(contains(job.out(), "per_node_setup: it exited with 4: no room")) << job.out();
  EXPECT_TRUE(log_of(0, 1).starts_with("no room\n")) << log_of(0, 1);
  EXPECT_FALSE(contains(job.out(), "failed on n0")) << job.out();
  EXPECT_FALSE(exists(cluster->path("started")));
  EXPECT_TRUE(wait_until([&] { return cluster->processes("sleep 1000").empty(); }));
}

TEST_F(MultiNodeSetup, ANodeThatJoinsLaterRunsIt) {
  nodes->start(0);
  Process& job =
      run("readlink /proc/self/ns/net | tee -a setups", fmt::format("[{}]", program("sdk_worker")),
          "{num_workers: {min: 1, max: 2}, placement_strategy: STRICT_SPREAD}",
          fmt::format(
              "train_loop_config: {{mode: epochs, epochs: 12, hold_file: '{}', hold_at: [4]}}\n",
              cluster->path("go")));
  ASSERT_TRUE(wait_until([&] { return reports(*cluster, "job").size() == 4; }))
      << job.out() << job.err();
  EXPECT_EQ(lines("setups").size(), 1u);

  nodes->start(1);
  ASSERT_TRUE(wait_until([&] {
    return contains(job.out(), "there is room for 2 workers instead of 1");
  })) << job.out();
  cluster->write("go-0-4", "");

  EXPECT_EQ(job.wait(), 0) << job.out() << job.err();
  EXPECT_EQ(lines("setups").size(), 2u) << job.out();
  EXPECT_TRUE(log_of(0, 0).starts_with("net:[")) << log_of(0, 0);
  EXPECT_EQ(log_of(1, 0), "");
  EXPECT_TRUE(log_of(1, 1).starts_with("net:[")) << log_of(1, 1);
}

}  // namespace
}  // namespace train::e2e
