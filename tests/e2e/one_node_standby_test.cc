// standby_workers: processes that have already loaded their libraries become workers when the group
// restarts.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class Standby : public testing::Test {
 protected:
  /// Return a job of two workers that wait in epoch 2 of attempt 0 and epoch 3 of attempt 1.
  std::string job(const std::string& command, int standbys, const std::string& more = "") {
    return cluster.job("job",
                       "command: " + command +
                           "\ntrain_loop_config: {mode: epochs, epochs: 4, hold_attempts: 2, "
                           "hold_at: [2, 3], hold_file: '" +
                           cluster.path("go") + "'" + more +
                           "}\nscaling_config: {num_workers: 2, standby_workers: " +
                           std::to_string(standbys) + ", resources_per_worker: {CPU: 0}}",
                       "  failure_config: {max_failures: 1}");
  }
  void let_go(int attempt, int epoch) {
    cluster.write("go-" + std::to_string(attempt) + "-" + std::to_string(epoch), "go");
  }
  std::set<pid_t> standbys() const {
    std::set<pid_t> pids;
    for (const Seen& seen : cluster.standbys()) pids.insert(seen.pid);
    return pids;
  }
  std::set<pid_t> wait_for_standbys(std::size_t count) {
    EXPECT_TRUE(wait_until([&] { return standbys().size() == count; }))
        << standbys().size() << " stand by";
    return standbys();
  }
  bool reported(int attempt, int epoch) const {
    const auto lines = cluster.metrics("job");
    return std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
      return text_of(line, "attempt") == std::to_string(attempt) &&
             text_of(line.at("metrics").as_object(), "epoch") == std::to_string(epoch);
    });
  }

  Cluster cluster;
};

TEST_F(Standby, AGroupStartsAgainWithTheProcessesThatStoodBy) {
  Process& run = cluster.train_run({job("[" + program("sdk_worker") + "]", 2)});
  const std::set<pid_t> waiting = wait_for_standbys(2);
  send_signal(cluster.worker(1).value(), SIGKILL);
  let_go(1, 2);
  ASSERT_TRUE(wait_until([&] { return reported(1, 2); })) << run.out();

  // Two others stand by for the attempt after that.
  const std::set<pid_t> now = [&] {
    EXPECT_TRUE(wait_until([&] { return standbys().size() == 4; }));
    return standbys();
  }();
  EXPECT_TRUE(std::includes(now.begin(), now.end(), waiting.begin(), waiting.end()));
  let_go(1, 3);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(),
                       "attempt 1: 2 workers on 1 node, from checkpoint_000002 (2 from standby)\n"))
      << run.out();
  for (const char* rank : {"0", "1"}) {
    EXPECT_TRUE(contains(run.out(), std::string(rank) + "] RANK=" + rank +
                                        " TORCHELASTIC_RESTART_COUNT=1 TRAINRUN_STANDBY=\n"))
        << run.out();
  }
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Standby, ThoseThatDiedAreReplacedByNewProcesses) {
  Process& run = cluster.train_run({job("[" + program("sdk_worker") + "]", 2)});
  for (const pid_t pid : wait_for_standbys(2)) send_signal(pid, SIGKILL);
  send_signal(cluster.worker(0).value(), SIGKILL);
  let_go(1, 2);
  let_go(1, 3);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "attempt 1: 2 workers on 1 node, from checkpoint_000002\n"))
      << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Standby, ARestartedTraindFindsThemAgain) {
  Process& run = cluster.train_run({job("[" + program("sdk_worker") + "]", 2)});
  const std::set<pid_t> waiting = wait_for_standbys(2);
  const std::vector<Seen> traind = cluster.processes("traind --private");
  ASSERT_EQ(traind.size(), 1u);
  send_signal(traind[0].pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const auto again = cluster.processes("traind --private");
    return again.size() == 1 && again[0].pid != traind[0].pid;
  }));
  send_signal(cluster.worker(0).value(), SIGKILL);
  let_go(1, 2);
  let_go(1, 3);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "(2 from standby)")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Standby, ThoseOfADeadLauncherEndWithTheNextOne) {
  Process& first = cluster.train_run({job("[" + program("sdk_worker") + "]", 1)});
  const std::set<pid_t> waiting = wait_for_standbys(1);
  first.signal(SIGKILL);
  first.wait();

  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});

  ASSERT_TRUE(wait_until([&] { return standbys().count(*waiting.begin()) == 0; }));
  let_go(0, 2);
  let_go(0, 3);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Standby, AProgramBehindAShellWaitsToo) {
  Process& run = cluster.train_run({job("'" + program("sdk_worker") + "; exit $?'", 2)});
  wait_for_standbys(4);  // two shells and two programs
  send_signal(cluster.worker(1).value(), SIGKILL);
  let_go(1, 2);
  let_go(1, 3);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "(2 from standby)")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Standby, AProgramWithoutTheSdkIsNotStartedTwice) {
  Process& run = cluster.train_run(
      {cluster.job("job", "command: \"echo started\"\nscaling_config: {standby_workers: 1}")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out() + run.err(),
                       "warning: standby_workers had no effect: only programs that use the SDK"))
      << run.out();
}

}  // namespace
}  // namespace train::e2e
