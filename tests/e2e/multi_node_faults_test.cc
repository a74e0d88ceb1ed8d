// Four workers run on two of three nodes, each a network namespace. Tests what a fault loses, and
// that training resumes from the newest checkpoint, with every report in the log once.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <set>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;
constexpr int kHeldAt = 6;
// For tests of the verdict on a silent node; tests without a verdict use the patient ones.
constexpr const char* kOneLoss = "max_failures: 1, node_dead_after: 5s, orphan_timeout: 5s";
constexpr Seconds kOneLossDeadAfter{5};
constexpr const char* kSlowOneFailure = "max_failures: 1, node_dead_after: 1h, orphan_timeout: 1h";
constexpr const char* kSlowNoFailure = "max_failures: 0, node_dead_after: 1h, orphan_timeout: 1h";

class MultiNodeFaults : public ThreeNodes {
 protected:
  void SetUp() override {
    ThreeNodes::SetUp();
    if (!IsSkipped()) nodes->start_all();
  }

  /// Return a job of four workers that report kEpochs epochs, each with a checkpoint, and wait
  /// before some epochs (`loop`: hold_at, hold_attempts) until the test lets them go on.
  std::string job(const std::string& loop, const std::string& failure_config) const {
    return cluster->job(
        "job",
        fmt::format("command: [{}]\nscaling_config: {{num_workers: 4}}\n"
                    "train_loop_config: {{mode: epochs, epochs: {}, hold_file: '{}', {}}}\n",
                    program("sdk_worker"), kEpochs, cluster->path("go"), loop),
        fmt::format("  failure_config: {{{}, node_suspect_after: 1s, stop_grace: 1s}}\n",
                    failure_config));
  }
  void go_on(int attempt, int epoch) const {
    cluster->write(fmt::format("go-{}-{}", attempt, epoch), "");
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
  /// Return whether all ranks of attempt 0 wait before epoch kHeldAt, with their work saved.
  bool all_wait() const {
    return all_reported(0, kHeldAt - 1) && cluster->checkpoints("job").size() == kHeldAt;
  }
  /// Check the end of a run that restarted once, after all_wait(): every epoch is there, and the
  /// second attempt began from the checkpoints or later.
  void expect_one_restart(Process& run) const {
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
      EXPECT_EQ(static_cast<int>(seen.size()), kEpochs) << "rank " << rank;
      EXPECT_GE(begun, kHeldAt) << "rank " << rank << " began before the newest checkpoint";
    }
    EXPECT_TRUE(wait_until([&] { return cluster->workers().empty(); }));
  }
  /// Check the end of a run that did not restart, with every report in the log.
  void expect_nothing_lost(Process& run) const {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_EQ(restarts(*cluster, "job"), 0);
    const std::vector<Reported> all = reports(*cluster, "job");
    EXPECT_EQ(all.size(), 4u * kEpochs);
    expect_exactly_once(all);
  }
  std::string cause() const {
    for (const auto& event : cluster->journal("job")) {
      if (text_of(event, "event") == "attempt_ended" && text_of(event, "attempt") == "0")
        return text_of(event, "cause");
    }
    return "";
  }
};

TEST_F(MultiNodeFaults, AKilledWorkerRestartsTheGroupOnBothNodes) {
  Process& run = nodes->train_run(job("hold_at: [6]", kSlowOneFailure), 3);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(0).size(), 2u);
  EXPECT_EQ(nodes->workers_on(1).size(), 2u);

  send_signal(cluster->worker(3).value(), SIGKILL);

  expect_one_restart(run);
  EXPECT_EQ(cause(), "rank 3 on n1 was killed by SIGKILL");
}

TEST_F(MultiNodeFaults, AKilledSupervisorTakesItsWorkersAndTheGroupRestarts) {
  Process& run = nodes->train_run(job("hold_at: [6]", kSlowOneFailure), 3);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();
  const std::vector<pid_t> its_workers = nodes->workers_on(1);
  ASSERT_EQ(its_workers.size(), 2u);

  send_signal(nodes->supervisor_on(1).value(), SIGKILL);

  expect_one_restart(run);
  for (const pid_t pid : its_workers) EXPECT_NE(::kill(pid, 0), 0) << "an orphan";
  EXPECT_EQ(cause(), "the supervisor on n1 ended: killed by signal 9");
}

TEST_F(MultiNodeFaults, ACutLinkIsALostNodeAndTheThirdOneTakesOver) {
  Process& run = nodes->train_run(job("hold_at: [6, 10], hold_attempts: 2", kOneLoss), 3);
  go_on(1, 6);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();

  network->cut(1);

  ASSERT_TRUE(wait_until([&] { return all_reported(1, 9); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(0).size(), 2u);
  EXPECT_EQ(nodes->workers_on(2).size(), 2u);
  go_on(1, 10);
  expect_one_restart(run);  // the orphan timeout ends the workers on the stale side
  EXPECT_TRUE(cause().starts_with("node n1 is lost: no heartbeat for ")) << cause();
  expect_verdict_in_time(cause(), kOneLossDeadAfter);
}

TEST_F(MultiNodeFaults, AStaleNodeThatComesBackIsToldToEndAndNotListenedTo) {
  Process& run = nodes->train_run(job("hold_at: [6, 10], hold_attempts: 2",
                                      "max_failures: 1, node_dead_after: 5s, orphan_timeout: 1h"),
                                  3);
  go_on(1, 6);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();

  network->cut(1);
  go_on(0, 6);  // nobody hears what n1's ranks report from here on
  ASSERT_TRUE(wait_until([&] { return all_reported(1, 9); })) << run.out() << run.err();
  EXPECT_EQ(nodes->workers_on(1).size(), 2u) << "they are not told to end yet";
  const std::vector<Reported> before = reports(*cluster, "job");
  network->mend(1);

  EXPECT_TRUE(wait_until([&] { return nodes->workers_on(1).empty(); }));
  go_on(1, 10);
  expect_one_restart(run);
  std::set<Reported> old_ones;
  for (const Reported& report : before) old_ones.insert(report);
  for (const Reported& report : reports(*cluster, "job")) {
    EXPECT_TRUE(report.attempt != 0 || old_ones.contains(report))
        << "rank " << report.rank << ", epoch " << report.epoch;
  }
}

TEST_F(MultiNodeFaults, AShortCutCostsNothing) {
  Process& run = nodes->train_run(job("checkpoint_every: 0, hold_at: [6]", kSlowNoFailure), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << run.out() << run.err();

  network->cut(1);
  go_on(0, 6);
  EXPECT_TRUE(wait_until([&] { return reported(0, 0, kEpochs - 1); }));
  EXPECT_FALSE(reported(0, 2, 6)) << "n1 is cut off";
  network->mend(1);

  expect_nothing_lost(run);
}

TEST_F(MultiNodeFaults, ANodeThatHearsNothingIsLostToo) {
  Process& run = nodes->train_run(job("hold_at: [6]", kOneLoss), 3);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();

  network->deafen(1);  // its reports still arrive; acknowledgements do not

  expect_one_restart(run);
}

TEST_F(MultiNodeFaults, DaemonsThatAreKilledAndRestartedCostNothing) {
  Process& run = nodes->train_run(job("checkpoint_every: 0, hold_at: [4, 8]", kSlowNoFailure), 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 3); })) << run.out() << run.err();

  for (const int node : {0, 1}) {
    nodes->daemon(node).signal(SIGKILL);
    ASSERT_TRUE(nodes->daemon(node).wait());
    go_on(0, 4 + 4 * node);
    ASSERT_TRUE(wait_until([&] { return reported(0, 2 * (1 - node), 7 + 4 * node); }))
        << "the other node's reports go on";
    nodes->start(node);
    ASSERT_TRUE(wait_until([&] { return all_reported(0, 7 + 4 * node); }))
        << run.out() << run.err();
  }

  expect_nothing_lost(run);
}

TEST_F(MultiNodeFaults, ALauncherThatWasReplacedEndsNothingOnNodesThatOnlyItHasReached) {
  const std::string yaml = job("checkpoint_every: 0, hold_at: [6]", kSlowNoFailure);
  Process& first = nodes->train_run(yaml, 3);
  ASSERT_TRUE(wait_until([&] { return all_reported(0, 5); })) << first.out() << first.err();

  nodes->daemon(1).signal(SIGSTOP);
  Process& second = nodes->train_run(yaml, 3, {"--force"});
  EXPECT_EQ(first.wait(), 73) << first.out() << first.err();
  nodes->daemon(1).signal(SIGCONT);
  go_on(0, 6);

  expect_nothing_lost(second);
}

TEST_F(MultiNodeFaults, TwoNodesLostLeaveARunThatWaitsAndGoesOnWhenOneComesBack) {
  Process& run = nodes->train_run(job("hold_at: [6]", kOneLoss), 3);
  ASSERT_TRUE(wait_until([&] { return all_wait(); })) << run.out() << run.err();

  network->cut(0);
  network->cut(1);
  EXPECT_TRUE(wait_until([&] {
    return contains(run.out(), "waiting: 4 workers with CPU 1 each are needed (PACK), 2 fit: ");
  })) << run.out();
  network->mend(0);

  expect_one_restart(run);
}

// A restarted traind finds its supervisors. A supervisor that is stopped, or stuck in its storage,
// does not answer, but its workers still occupy the node.
class SilentSupervisor : public ::testing::Test {
 protected:
  void SetUp() override {
    nodes.start(0, {"--resource", "CPU=1"});
    const std::string job = cluster.job(
        "job",
        "command: [" + program("sdk_worker") +
            "]\n"
            "scaling_config: {num_workers: 1}\n"
            "train_loop_config: {mode: epochs, epochs: 10, checkpoint_every: 1, hold_at: [5], "
            "hold_file: '" +
            cluster.path("go") + "'}\n",
        "  failure_config: {max_failures: 1}");
    run = &nodes.train_run(job, 1);
    ASSERT_TRUE(wait_until([&] { return reports(cluster, "job").size() >= 5; })) << run->err();
    supervisor = nodes.supervisor_on(0).value_or(-1);
    send_signal(supervisor, SIGSTOP);
    nodes.daemon(0).signal(SIGKILL);
    ASSERT_TRUE(nodes.daemon(0).wait());
    again = &nodes.start(0, {"--resource", "CPU=1"});
  }

  Cluster cluster;
  Nodes nodes{cluster, 1};
  Process *run = nullptr, *again = nullptr;
  pid_t supervisor = -1;
};

TEST_F(SilentSupervisor, KeepsItsNodeFromOthersUntilItAnswers) {
  const std::string other =
      cluster.job("other", "command: [" + program("plain_worker") + ", touch, " +
                               cluster.path("ran") + "]\nscaling_config: {num_workers: 1}\n");
  Process& second = nodes.train_run(other, 1);
  EXPECT_TRUE(wait_until([&] {
    return contains(again->err(), "does not answer") && contains(again->err(), "run=other");
  })) << again->err();
  EXPECT_FALSE(exists(cluster.path("ran"))) << "two runs have the only CPU";

  send_signal(supervisor, SIGCONT);
  cluster.write("go-0-5", "");

  EXPECT_EQ(run->wait(), 0) << run->out() << run->err() << again->err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
}

TEST_F(SilentSupervisor, IsKilledInTheEndAndTheRunGoesOn) {
  EXPECT_TRUE(wait_until([&] {
    return contains(again->err(), "killing a supervisor that does not answer");
  })) << again->err();

  EXPECT_EQ(run->wait(), 0) << run->out() << run->err() << again->err();
  EXPECT_EQ(restarts(cluster, "job"), 1);
  EXPECT_TRUE(wait_until([&] { return cluster.workers().empty(); }));
}

}  // namespace
}  // namespace train::e2e
