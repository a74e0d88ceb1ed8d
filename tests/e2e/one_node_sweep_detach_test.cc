// train-run sweep --detach: the sweep goes on without a terminal, whether its driver or the traind
// that runs it dies.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <set>

#include "tests/e2e/sweep_fixture.h"

namespace train::e2e {
namespace {

class DetachedSweep : public Sweep {
 protected:
  /// Write a job of four trials, two at once, which hold at their second report until go_on().
  std::string holding_job() const {
    return job(grid(4, 2), "epochs: 3, hold_above: 0, hold_file: " + cluster.path("go"));
  }
  void go_on() { cluster.write("go", ""); }
  void detach(const Words& words) {
    Process& sweep = cluster.train_run(words);
    ASSERT_EQ(sweep.wait(), 0) << sweep.out() << sweep.err();
    EXPECT_EQ(sweep.out(), "sweep job continues in the background\nfolder: " + folder() +
                               "\nfollow it with `train-run attach " + folder() +
                               "`, stop it with `train-run stop " + folder() + "`\n");
    ASSERT_TRUE(two_hold()) << log();
  }
  bool two_hold() const {
    return wait_until([&] {
      return exists(trial(0) + "/checkpoints/checkpoint_000001/.manifest.json") &&
             exists(trial(1) + "/checkpoints/checkpoint_000001/.manifest.json");
    });
  }
  std::string log() const { return read_file(folder() + "/launcher.log"); }
  pid_t only(const std::string& containing) const {
    const auto found = cluster.processes(containing);
    EXPECT_EQ(found.size(), 1u) << containing;
    return found.size() == 1 ? found.front().pid : -1;
  }
  pid_t driver() const { return only("--detached-controller"); }
  pid_t traind() const { return only("traind --private"); }
  /// Follow it to its end, which must be good, and look whether each trial was done once.
  void expect_good_end() {
    Process& attached = cluster.train_run({"attach", folder()});
    EXPECT_TRUE(wait_until([&] { return contains(attached.out(), "state:      running"); }));
    go_on();
    EXPECT_EQ(attached.wait(), 0) << attached.out() << attached.err();
    EXPECT_TRUE(contains(attached.out(), "4 of 4 trials: 4 finished\n")) << attached.out();
    EXPECT_EQ(states(), Words(4, "finished"));
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(cluster.json_lines(read_file(trial(i) + "/metrics.jsonl")).size(), 3u)
          << "trial " << i << " has gone on from its checkpoint";
    EXPECT_TRUE(nothing_left(cluster));
  }
};

TEST_F(DetachedSweep, IsBackByItselfAfterItsDriverWasKilled) {
  detach({"sweep", "--detach", holding_job()});
  const pid_t first = driver();

  send_signal(first, SIGKILL);

  EXPECT_TRUE(wait_until([&] { return contains(log(), "2 began earlier"); })) << log();
  EXPECT_NE(driver(), first);
  expect_good_end();
}

TEST_F(DetachedSweep, StartsItsTraindAgain) {
  detach({"sweep", "--detach", holding_job()});
  const pid_t first = traind(), controller = driver();

  send_signal(first, SIGKILL);

  EXPECT_TRUE(wait_until([&] {
    const auto now = cluster.processes("traind --private");
    return now.size() == 1 && now.front().pid != first;
  })) << log();
  EXPECT_EQ(driver(), controller);
  expect_good_end();
}

// A traind that finds a driver again does not see its exit code.
TEST_F(DetachedSweep, StaysStoppedAlsoUnderAnotherTraind) {
  detach({"sweep", "--detach", holding_job()});
  const pid_t first = traind();
  send_signal(first, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const auto now = cluster.processes("traind --private");
    return now.size() == 1 && now.front().pid != first;
  })) << log();

  EXPECT_EQ(cluster.run({"stop", folder()}), 0);

  EXPECT_TRUE(nothing_left(cluster));
  EXPECT_EQ(status().at("state"), "interrupted");
  EXPECT_FALSE(contains(log(), "began earlier")) << log();
}

TEST_F(DetachedSweep, RunsUnderATraindOfTheUsersToo) {
  Process& own =
      cluster.traind({"--allow-root", "--listen", "unix:" + cluster.path("own/traind.sock"),
                      "--runtime-dir", cluster.path("own"), "--spool-dir", cluster.path("spool")});
  ASSERT_TRUE(wait_until([&] { return contains(own.err(), "msg=listening"); })) << own.err();
  detach({"sweep", "--detach", "--runtime-dir", cluster.path("own"), holding_job()});
  const pid_t first = driver();

  send_signal(first, SIGKILL);

  EXPECT_TRUE(wait_until([&] { return contains(log(), "2 began earlier"); })) << log();
  go_on();
  EXPECT_TRUE(wait_until([&] { return contains(log(), "4 of 4 trials: 4 finished\n"); })) << log();
  EXPECT_TRUE(wait_until([&] { return cluster.processes().size() == 1; }));
  own.signal(SIGINT);
  EXPECT_EQ(own.wait(), 0);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(DetachedSweep, IsStoppedAndGoesOnDetached) {
  detach({"sweep", "--detach", holding_job()});
  Process& attached = cluster.train_run({"attach", folder()});
  EXPECT_TRUE(wait_until([&] { return contains(attached.out(), "state:      running"); }));

  EXPECT_EQ(cluster.run({"stop", folder()}), 0);
  EXPECT_EQ(attached.wait(), 130) << attached.out() << attached.err();
  EXPECT_TRUE(nothing_left(cluster));
  EXPECT_EQ(status().at("state"), "interrupted");

  Process& again = cluster.train_run({"resume", "--detach", folder()});
  ASSERT_EQ(again.wait(), 0) << again.out() << again.err();
  expect_good_end();
  EXPECT_EQ(cluster.run({"resume", "--detach", folder()}), 73) << "it has ended";
}

TEST_F(DetachedSweep, TriesMoreTrials) {
  EXPECT_EQ(cluster.run({"sweep", job("  num_trials: 1\n  parameters: {x: {uniform: [0, 1]}}\n")}),
            0);

  Process& more = cluster.train_run({"sweep", "--detach", "--more", "2", folder()});

  EXPECT_EQ(more.wait(), 0) << more.out() << more.err();
  EXPECT_TRUE(wait_until([&] { return contains(log(), "3 of 3 trials: 3 finished\n"); })) << log();
  EXPECT_EQ(states(), Words(3, "finished"));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(DetachedSweep, WhatKeepsItFromStartingIsSaidHere) {
  detach({"sweep", "--detach", holding_job()});

  Process& again = cluster.train_run({"sweep", "--detach", holding_job()});
  EXPECT_EQ(again.wait(), 73) << again.out() << again.err();
  EXPECT_TRUE(contains(again.err(), "go on with it by train-run resume")) << again.err();
  Process& nobody = cluster.train_run({"sweep", "--detach", "--runtime-dir", cluster.path("none"),
                                       holding_job(), "--name", "other"});
  EXPECT_EQ(nobody.wait(), 69) << nobody.out() << nobody.err();
  expect_good_end();
}

}  // namespace
}  // namespace train::e2e
