// Tests of drivers that run a job several times by the same workers, in C++ and in Python: both say
// the same (programs/warm_driver.cc, programs/warm_driver.py).
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {

/// What a driver has said of one run.
struct WarmRun {
  std::string first_line;                  // "result run_001 succeeded {"epoch": 0} checkpoints 1"
  std::vector<boost::json::object> ranks;  // what the loop has returned, by rank
};

class WarmDrivers : public testing::Test {
 protected:
  /// Start the driver. `words`: its mode, and "restarts" if the runs may start their workers again.
  virtual Process& drive(const std::vector<std::string>& words) = 0;

  std::map<std::string, std::string> environment() const {
    return {{"TRAINRUN_PROGRAM", built("train-run")},
            {"RUNS", cluster.storage()},
            {"GO", cluster.path("go")}};
  }
  /// Return the runs of which the driver has spoken.
  static std::vector<WarmRun> runs(const Process& driver) {
    std::vector<WarmRun> found;
    std::istringstream stream(driver.out());
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("result "))
        found.push_back({line, {}});
      else if (line.starts_with("  {") && !found.empty())
        found.back().ranks.push_back(boost::json::parse(line).as_object());
    }
    return found;
  }
  static std::vector<std::string> told(const Process& driver, const std::string& beginning) {
    std::vector<std::string> lines;
    std::istringstream stream(driver.out());
    for (std::string line; std::getline(stream, line);)
      if (line.starts_with(beginning)) lines.push_back(line);
    return lines;
  }
  static std::int64_t number(const WarmRun& run, std::size_t rank, const char* member) {
    return run.ranks.at(rank).at(member).as_int64();
  }
  /// Return a member of what all ranks of all runs have returned, run by run.
  static std::vector<std::int64_t> numbers(const std::vector<WarmRun>& runs, const char* member) {
    std::vector<std::int64_t> all;
    for (const WarmRun& run : runs)
      for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
        all.push_back(number(run, rank, member));
    return all;
  }
  /// Check that ranks of two runs were the same processes.
  static void expect_same_workers(const WarmRun& one, const WarmRun& other) {
    ASSERT_EQ(one.ranks.size(), 2u);
    ASSERT_EQ(other.ranks.size(), 2u);
    EXPECT_EQ(numbers({one}, "pid"), numbers({other}, "pid"));
  }
  bool no_workers_left() const {
    return cluster.workers().empty() && cluster.processes("traind").empty() &&
           cluster.processes("train-run").empty();
  }
  /// Wait until the first run has ended, and its workers stay.
  void wait_for_first_run(Process& driver) {
    ASSERT_TRUE(wait_until([&] { return !told(driver, "waiting").empty() || !driver.running(); }))
        << driver.out() << driver.err();
    ASSERT_EQ(cluster.workers().size(), 2u) << driver.out() << driver.err();
  }

  void several_runs();
  void a_failed_run();
  void a_worker_that_dies_between_runs();
  void a_restart_in_the_second_run();
  void a_shutdown();
  void a_killed_driver();

  Cluster cluster;
};

inline void WarmDrivers::several_runs() {
  Process& driver = drive({"runs"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 3u) << driver.out() << driver.err();
  expect_same_workers(all[0], all[1]);
  expect_same_workers(all[0], all[2]);
  EXPECT_EQ(numbers(all, "loops"), (std::vector<std::int64_t>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(numbers(all, "began"), std::vector<std::int64_t>(6, 0))
      << "no run goes on with another";
  EXPECT_EQ(told(driver, "round ").size(), 3u) << driver.out();
  const std::size_t reports[] = {1, 3, 2};  // of each rank
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = "warm/run_00" + std::to_string(i + 1);
    expect_one_attempt(cluster, name, 2, static_cast<int>(reports[i]));
    EXPECT_EQ(cluster.checkpoints(name).size(), reports[i]) << name;
    EXPECT_TRUE(all[i].first_line.ends_with(" checkpoints " + std::to_string(reports[i])))
        << all[i].first_line;
  }
  EXPECT_TRUE(nothing_left(cluster));
}

inline void WarmDrivers::a_failed_run() {
  Process& driver = drive({"failing"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  EXPECT_EQ(told(driver, "WorkerGroupError"),
            std::vector<std::string>{"WorkerGroupError the learning rate is 0"});
  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 2u) << driver.out() << driver.err();
  EXPECT_TRUE(all[1].first_line.starts_with("result run_003 succeeded")) << all[1].first_line;
  EXPECT_EQ(numbers(all, "loops"), (std::vector<std::int64_t>{1, 1, 1, 1})) << "new processes";
  EXPECT_TRUE(nothing_left(cluster));
}

inline void WarmDrivers::a_worker_that_dies_between_runs() {
  Process& driver = drive({"waiting"});
  ASSERT_NO_FATAL_FAILURE(wait_for_first_run(driver));
  send_signal(cluster.worker(1).value(), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !cluster.worker(1); }));
  cluster.write("go", "");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 2u) << driver.out() << driver.err();
  EXPECT_TRUE(all[1].first_line.starts_with("result run_002 succeeded")) << all[1].first_line;
  ASSERT_EQ(all[1].ranks.size(), 2u);
  EXPECT_NE(number(all[1], 1, "pid"), number(all[0], 1, "pid"));
  EXPECT_EQ(number(all[1], 1, "loops"), 1);
  EXPECT_TRUE(nothing_left(cluster));
}

inline void WarmDrivers::a_restart_in_the_second_run() {
  Process& driver = drive({"restart", "restarts"});
  const std::string second = "warm/run_002";
  ASSERT_TRUE(wait_until([&] {
    return cluster.checkpoints(second).size() == 2 || !driver.running();
  })) << driver.out()
      << driver.err();
  send_signal(cluster.worker(1).value(), SIGKILL);
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 3u) << driver.out() << driver.err();
  EXPECT_TRUE(all[1].first_line.starts_with("result run_002 succeeded")) << all[1].first_line;
  EXPECT_EQ(numbers({all[1]}, "began"), (std::vector<std::int64_t>{2, 2})) << "from the checkpoint";
  EXPECT_EQ(told(driver, "round "),
            (std::vector<std::string>{"round 0.1 ordinal 1", "round 0.2 ordinal 2",
                                      "round 1.1 ordinal 3"}));
  expect_same_workers(all[1], all[2]);
  EXPECT_TRUE(nothing_left(cluster));
}

inline void WarmDrivers::a_shutdown() {
  Process& driver = drive({"shutdown"});
  ASSERT_TRUE(wait_until([&] { return !told(driver, "shut down").empty() || !driver.running(); }))
      << driver.out() << driver.err();
  EXPECT_TRUE(no_workers_left()) << "and the driver goes on";
  cluster.write("go", "");
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
  EXPECT_TRUE(nothing_left(cluster));
}

inline void WarmDrivers::a_killed_driver() {
  Process& driver = drive({"waiting"});
  ASSERT_NO_FATAL_FAILURE(wait_for_first_run(driver));
  driver.signal(SIGKILL);
  driver.wait();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }, Seconds(20)));
}

}  // namespace train::e2e
