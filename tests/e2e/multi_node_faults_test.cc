// Four workers over two of three nodes, each node a network namespace: what is lost, and that
// training goes on from the newest checkpoint with every report in the log once.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <set>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

class MultiNodeFaults : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { missing_ = Network::missing(); }
  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << "SKIPPED: " << missing_;
    network = std::make_unique<Network>(3);
    cluster = std::make_unique<Cluster>();
    nodes = std::make_unique<Nodes>(*cluster, *network, 3);
    nodes->start_all();
  }
  void TearDown() override {
    nodes.reset();
    cluster.reset();  // its processes keep the namespaces alive
    network.reset();
  }

  /// Four workers that report an epoch each 50 ms, with a checkpoint each.
  std::string job(int epochs, const std::string& failure_config, int checkpoint_every = 1,
                  int orphan_timeout = 3) const {
    return cluster->job(
        "job",
        fmt::format(
            "command: [{}]\nscaling_config: {{num_workers: 4}}\n"
            "train_loop_config: {{mode: epochs, epochs: {}, pace_ms: 50, checkpoint_every: {}}}\n",
            program("sdk_worker"), epochs, checkpoint_every),
        fmt::format("  failure_config: {{{}, node_suspect_after: 1s, node_dead_after: 3s, "
                    "orphan_timeout: {}s, stop_grace: 1s}}\n",
                    failure_config, orphan_timeout));
  }
  bool reported(int attempt, int rank, std::int64_t epoch) const {
    for (const Reported& report : reports(*cluster, "job")) {
      if (report.attempt == attempt && report.rank == rank && report.epoch >= epoch) return true;
    }
    return false;
  }
  bool all_reported(int attempt, std::int64_t epoch) const {
    return reported(attempt, 0, epoch) && reported(attempt, 1, epoch) &&
           reported(attempt, 2, epoch) && reported(attempt, 3, epoch);
  }
  /// The end of a run that took up its work once: every epoch is there, the second attempt began
  /// where the checkpoint was.
  void expect_one_restart(Process& run, int epochs) const {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_EQ(restarts(*cluster, "job"), 1);
    const std::vector<Reported> all = reports(*cluster, "job");
    expect_exactly_once(all);
    for (int rank = 0; rank < 4; ++rank) {
      std::set<std::int64_t> seen;
      std::int64_t begun = -1;
      for (const Reported& report : all) {
        if (report.rank != rank) continue;
        seen.insert(report.epoch);
        if (report.attempt == 1 && begun < 0) begun = report.epoch;
      }
      EXPECT_EQ(static_cast<int>(seen.size()), epochs) << "rank " << rank;
      EXPECT_GT(begun, 0) << "rank " << rank << " began from nothing";
    }
    EXPECT_TRUE(wait_until([&] { return cluster->workers().empty(); }));
  }
  std::string cause() const {
    for (const auto& event : cluster->journal("job")) {
      if (text_of(event, "event") == "attempt_ended" && text_of(event, "attempt") == "0")
        return text_of(event, "cause");
    }
    return "";
  }

  std::unique_ptr<Network> network;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Nodes> nodes;

 private:
  static std::string missing_;
};
std::string MultiNodeFaults::missing_;

TEST_F(MultiNodeFaults, AKilledWorkerRestartsTheGroupOnBothNodes) {
  Process& run = nodes->train_run(job(40, "max_failures: 1"), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(0).size(), 2u);
  EXPECT_EQ(nodes->workers_on(1).size(), 2u);

  send_signal(cluster->worker(3).value(), SIGKILL);

  expect_one_restart(run, 40);
  EXPECT_EQ(cause(), "rank 3 on n1 was killed by SIGKILL");
}

TEST_F(MultiNodeFaults, AKilledSupervisorTakesItsWorkersAndTheGroupRestarts) {
  Process& run = nodes->train_run(job(40, "max_failures: 1"), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();
  const std::vector<pid_t> its_workers = nodes->workers_on(1);
  ASSERT_EQ(its_workers.size(), 2u);

  send_signal(nodes->supervisor_on(1).value(), SIGKILL);

  expect_one_restart(run, 40);
  for (const pid_t pid : its_workers) EXPECT_NE(::kill(pid, 0), 0) << "an orphan";
  EXPECT_EQ(cause(), "the supervisor on n1 ended: killed by signal 9");
}

TEST_F(MultiNodeFaults, ACutLinkIsALostNodeAndTheThirdOneTakesOver) {
  Process& run = nodes->train_run(job(60, "max_failures: 1"), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->cut(1);

  ASSERT_TRUE(wait_until([&] { return all_reported(1, 0); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(0).size(), 2u);
  EXPECT_EQ(nodes->workers_on(2).size(), 2u);
  expect_one_restart(run, 60);  // the stale side's workers end by the orphan timeout
  EXPECT_TRUE(cause().starts_with("node n1 is lost: no heartbeat for 3")) << cause();
}

TEST_F(MultiNodeFaults, AStaleNodeThatComesBackIsToldToEndAndNotListenedTo) {
  Process& run = nodes->train_run(job(120, "max_failures: 1", 1, /*orphan_timeout=*/60), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->cut(1);
  ASSERT_TRUE(wait_until([&] { return all_reported(1, 0); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(1).size(), 2u) << "they work on, for nobody";
  const std::vector<Reported> before = reports(*cluster, "job");
  network->mend(1);

  EXPECT_TRUE(wait_until([&] { return nodes->workers_on(1).empty(); }));
  expect_one_restart(run, 120);
  std::set<Reported> old_ones;
  for (const Reported& report : before) old_ones.insert(report);
  for (const Reported& report : reports(*cluster, "job")) {
    if (report.attempt == 0)
      EXPECT_TRUE(old_ones.contains(report))
          << "rank " << report.rank << ", epoch " << report.epoch;
  }
}

TEST_F(MultiNodeFaults, AShortCutCostsNothing) {
  Process& run = nodes->train_run(job(80, "max_failures: 0", /*checkpoint_every=*/0), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->cut(1);
  EXPECT_TRUE(wait_until([&] { return reported(0, 0, 25); }));  // about a second
  network->mend(1);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(restarts(*cluster, "job"), 0);
  const std::vector<Reported> all = reports(*cluster, "job");
  EXPECT_EQ(all.size(), 4u * 80u);
  expect_exactly_once(all);
}

TEST_F(MultiNodeFaults, ANodeThatHearsNothingIsLostToo) {
  Process& run = nodes->train_run(job(60, "max_failures: 1"), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->deafen(1);  // its reports still arrive; acknowledgements do not

  ASSERT_TRUE(wait_until([&] { return all_reported(1, 0); })) << run.out() << run.err();
  expect_one_restart(run, 60);
}

TEST_F(MultiNodeFaults, DaemonsThatAreKilledAndRestartedCostNothing) {
  Process& run = nodes->train_run(job(80, "max_failures: 0", /*checkpoint_every=*/0), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  for (const int node : {0, 1}) {
    nodes->daemon(node).signal(SIGKILL);
    ASSERT_TRUE(nodes->daemon(node).wait());
    ASSERT_TRUE(wait_until([&] { return reported(0, 2 * (1 - node), 12 + 15 * node); }))
        << "the other node's reports go on";
    nodes->start(node);
    ASSERT_TRUE(wait_until([&] { return all_reported(0, 15 + 15 * node); }))
        << run.out() << run.err();
  }

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(restarts(*cluster, "job"), 0);
  const std::vector<Reported> all = reports(*cluster, "job");
  EXPECT_EQ(all.size(), 4u * 80u);
  expect_exactly_once(all);
}

TEST_F(MultiNodeFaults, TwoNodesLostLeaveARunThatWaitsAndGoesOnWhenOneComesBack) {
  Process& run = nodes->train_run(job(60, "max_failures: 1"), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->cut(0);
  network->cut(1);
  EXPECT_TRUE(wait_until([&] {
    return contains(run.out(), "waiting: 4 workers with CPU 1 each are needed (PACK), 2 fit: ");
  })) << run.out();
  network->mend(0);

  expect_one_restart(run, 60);
}

}  // namespace
}  // namespace train::e2e
