// Ingest workers beside the ranks: started, told to the ranks, and replaced when they die, while
// launchers, traind and supervisors come and go. tests/e2e/programs/serving_worker serves nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr int kRanks = 2;

class Ingest : public ::testing::Test {
 protected:
  std::string job(const std::string& workers, const std::string& ingest = "{}",
                  const std::string& config = "", int max_failures = 0) {
    return cluster.job(
        "job",
        fmt::format("command: [{}]\n"
                    "scaling_config: {{num_workers: {}, resources_per_worker: {{CPU: 0}}}}\n"
                    "train_loop_config: {{stop: '{}'{}}}\n"
                    "datasets: {{train: {{format: items, items: [{{x: 1}}]}}}}\n"
                    "dataset_config: {{train: {{ingest_workers: {}, ingest: {}}}}}\n",
                    program("serving_worker"), kRanks, cluster.path("stop"), config, workers,
                    ingest),
        fmt::format("  failure_config: {{max_failures: {}, backoff: {{initial: 10ms}}}}\n",
                    max_failures));
  }
  static std::string no_claim(const std::string& more = "") {
    return "{resources_per_worker: {CPU: 0}" + more + "}";
  }
  Process& start(const std::string& workers, const std::string& more = "",
                 const std::string& config = "", int max_failures = 0) {
    return cluster.train_run({job(workers, no_claim(more), config, max_failures)});
  }
  /// Return a value of the newest report of the rank.
  std::string newest(int rank, const std::string& key) {
    std::string value = "(none)";
    for (const auto& row : cluster.metrics("job"))
      if (text_of(row, "rank") == std::to_string(rank) &&
          row.at("metrics").as_object().contains(key))
        value = text_of(row.at("metrics").as_object(), key);
    return value;
  }
  /// Wait until all ranks have a roster of these names.
  void expect_roster(const std::string& names) {
    EXPECT_TRUE(wait_until([&] {
      for (int rank = 0; rank < kRanks; ++rank)
        if (newest(rank, "ingest") != names) return false;
      return true;
    })) << newest(0, "ingest")
        << "; " << newest(1, "ingest");
  }
  /// Return the pid of the ingest worker that listens at the n-th socket of rank 0's roster.
  pid_t serving(std::size_t number) {
    std::istringstream sockets(newest(0, "sockets"));
    std::string socket;
    for (std::size_t i = 0; i <= number; ++i) sockets >> socket;
    return std::atoi(cluster.read(socket).c_str());
  }
  void kill_serving(std::size_t number, int signal = SIGKILL) {
    const pid_t pid = serving(number);
    ASSERT_GT(pid, 1);
    send_signal(pid, signal);
  }
  pid_t supervisor() { return cluster.processes(" supervise --run ").at(0).pid; }
  void expect_end(Process& run) {
    cluster.write("stop", "");
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_TRUE(nothing_left(cluster));
  }
  std::string attempts() {
    return std::to_string(cluster.run_json("job").at("attempts").as_array().size());
  }

  Cluster cluster;
};

TEST_F(Ingest, ADeadOneLeavesTheRosterAndAnotherOneTakesItsPlace) {
  Process& run = start("2");
  expect_roster("ingest-train-0001 ingest-train-0002");
  const auto workers = cluster.worker_pids();
  Process& status = cluster.train_run({"status", cluster.run_dir("job")});
  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), "ingest:     2 ingest workers for train\n")) << status.out();

  kill_serving(1);

  expect_roster("ingest-train-0001 ingest-train-0002-2");
  EXPECT_EQ(cluster.worker_pids(), workers);
  expect_end(run);
  EXPECT_EQ(attempts(), "1");
  EXPECT_EQ(boost::json::serialize(cluster.run_json("job").at("ingest")),
            R"([{"dataset":"train","workers":2,"deaths":1}])");
  EXPECT_TRUE(contains(run.out(), "2 ingest workers for train, 1 death\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "ended: it was killed by SIGKILL; another one is started"))
      << run.out();
}

TEST_F(Ingest, OneThatIsStoppedIsReplaced) {
  Process& run = start("1", ", timeout: 1s");
  expect_roster("ingest-train-0001");

  kill_serving(0, SIGSTOP);

  expect_roster("ingest-train-0001-2");
  expect_end(run);
  EXPECT_TRUE(contains(run.out(), "it said nothing for 1.0 s, and was killed")) << run.out();
}

TEST_F(Ingest, OneThatAlwaysFailsIsToldWithItsLastLinesAndTheRunGoesOn) {
  Process& run = start("1", "", ", fails: true");
  EXPECT_TRUE(wait_until([&] {
    return contains(run.out() + run.err(), "so the next one is started in");
  })) << run.out()
      << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "no such column")) << run.out() << run.err();
  EXPECT_EQ(cluster.worker_pids().size(), 2u);

  expect_end(run);
  EXPECT_EQ(attempts(), "1");
}

TEST_F(Ingest, ALauncherThatTakesOverFindsThem) {
  Process& first = start("2");
  expect_roster("ingest-train-0001 ingest-train-0002");
  const pid_t survivor = serving(0);
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  kill_serving(1);  // while there is no launcher

  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});

  expect_roster("ingest-train-0001 ingest-train-0002-2");
  EXPECT_EQ(serving(0), survivor);
  expect_end(second);
  EXPECT_EQ(attempts(), "1");
  EXPECT_EQ(boost::json::serialize(cluster.run_json("job").at("ingest")),
            R"([{"dataset":"train","workers":2,"deaths":1}])");
}

TEST_F(Ingest, TheyGoOnWithoutTraind) {
  Process& run = start("2");
  expect_roster("ingest-train-0001 ingest-train-0002");

  send_signal(cluster.processes("traind --private").at(0).pid, SIGKILL);
  kill_serving(0);

  expect_roster("ingest-train-0001-2 ingest-train-0002");
  expect_end(run);
  EXPECT_EQ(attempts(), "1");
}

TEST_F(Ingest, ARestartedGroupHasItsOwn) {
  Process& run = start("1", "", "", 2);
  expect_roster("ingest-train-0001");
  const std::string before = newest(0, "sockets");
  const pid_t old = serving(0);

  send_signal(supervisor(), SIGKILL);

  EXPECT_TRUE(wait_until([&] {
    return newest(0, "sockets") != before && newest(1, "sockets") == newest(0, "sockets") &&
           serving(0) > 1;
  })) << newest(0, "sockets");
  EXPECT_NE(serving(0), old);
  EXPECT_EQ(newest(0, "ingest"), "ingest-train-0001");
  expect_end(run);
  EXPECT_EQ(attempts(), "2");
}

TEST_F(Ingest, TheyEndWithTheRanksThatFail) {
  Process& run = start("2");
  expect_roster("ingest-train-0001 ingest-train-0002");

  send_signal(cluster.worker(1).value_or(-1), SIGKILL);

  EXPECT_EQ(run.wait(), 128 + SIGKILL) << run.out() << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Ingest, TheirClaimsCountAndADryRunShowsThem) {
  const std::string spec = job("{min: 2, max: 4}", "{resources_per_worker: {CPU: 10000}}");

  Process& refused = cluster.train_run({spec});
  EXPECT_EQ(refused.wait(), 69) << refused.out() << refused.err();
  EXPECT_TRUE(
      contains(refused.out() + refused.err(),
               "2 ingest workers for train with CPU 10000 each are needed beside 2 workers"))
      << refused.out() << refused.err();
  Process& dry =
      cluster.train_run({job("{min: 2, max: 4}", no_claim(", timeout: 7s")), "--dry-run"});
  EXPECT_EQ(dry.wait(), 0) << dry.err();
  EXPECT_TRUE(contains(dry.out(), "ingest:    2 to 4 ingest workers for train with nothing each\n"))
      << dry.out();
}

}  // namespace
}  // namespace train::e2e
