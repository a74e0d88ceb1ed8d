// Checkpoints stay on the nodes' own disks (`replicas`). No node sees the run's storage, each shard
// is on its node and on the next one, and nodes, workers and launchers are lost.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

class Replicas : public NoStorage {
 protected:
  void SetUp() override {
    NoStorage::SetUp();
    if (IsSkipped()) return;
    for (int node : {0, 1, 2}) start_without_storage(node);
  }

  std::string job(int replicas, const std::string& loop, const std::string& more = "") const {
    return NoStorage::job(
        loop, fmt::format("  checkpoint_config: {{replicas: {}{}}}\n"
                          "  failure_config: {{max_failures: 2, node_suspect_after: 1s, "
                          "node_dead_after: 4s, stop_grace: 1s}}\n",
                          replicas, more));
  }
  /// Return what the node keeps of the run's checkpoints: "data-1-0.2/rank-0001", …
  std::set<std::string> kept_on(int node) const {
    std::set<std::string> locations;
    std::error_code ec;
    const fs::path data = cluster->path(fmt::format("sp-n{}/data", node));
    for (const auto& run : fs::directory_iterator(data, ec))
      for (const auto& made : fs::directory_iterator(run.path() / "checkpoints", ec))
        if (made.path().filename().string().starts_with("data-"))
          for (const auto& shard : fs::directory_iterator(made.path(), ec))
            locations.insert(made.path().filename() / shard.path().filename());
    return locations;
  }
  /// Check that the run's folder has all checkpoints intact, and that no node keeps anything.
  void expect_all_at_home(Process& run) {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_EQ(cluster->checkpoints("job").size(), static_cast<std::size_t>(kEpochs));
    EXPECT_TRUE(contains(verified(0), "4 of 4 checkpoints are intact")) << verified(0);
    for (int node : {0, 1, 2})
      if (node != off)
        EXPECT_TRUE(wait_until([&] { return kept_on(node).empty(); })) << *kept_on(node).begin();
  }
  std::string verified(int code) const {
    Process& verify = cluster->train_run({"checkpoint", "verify", cluster->run_dir("job")});
    EXPECT_EQ(verify.wait(), code) << verify.out() << verify.err();
    return verify.out();
  }

  int off = -1;  // has no power
};

TEST_F(Replicas, StayOnTwoNodesAndComeToTheRunsFolderAtItsEnd) {
  Process& run = nodes->train_run(job(2, "hold_at: [2]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  const std::set<std::string> both{"data-1-0.1/rank-0000", "data-1-0.1/rank-0001",
                                   "data-1-0.2/rank-0000", "data-1-0.2/rank-0001"};
  EXPECT_EQ(kept_on(0), both);
  EXPECT_EQ(kept_on(1), both);
  EXPECT_FALSE(exists(checkpoint(2) + "/rank-0"));
  EXPECT_TRUE(contains(verified(0), "checkpoint_000002: on n0, n1 (")) << verified(0);
  Process& copy = cluster->train_run(
      {"checkpoint", "export", cluster->run_dir("job"), "latest", cluster->path("copy")});
  EXPECT_NE(copy.wait(), 0);
  EXPECT_TRUE(contains(copy.err(), "checkpoint_000002 are on the disks of n0, n1")) << copy.err();

  send_signal(cluster->worker(1).value(), SIGKILL);
  go_on(1, 2);

  expect_all_at_home(run);
  EXPECT_TRUE(contains(run.out(), "bringing 4 checkpoints (256.0 MiB) from n0, n1 to '"))
      << run.out();
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 1), "restored epoch 1 whole")) << log_of(rank, 1);
  EXPECT_EQ(restarts(*cluster, "job"), 1);
}

TEST_F(Replicas, AnotherNodeGathersWhatItLacks) {
  Process& run = nodes->train_run(job(2, "hold_at: [2]"), 3);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  ASSERT_EQ(nodes->workers_on(2).size(), 0u);
  ASSERT_TRUE(kept_on(2).empty());

  nodes->power_off(off = 1);
  go_on(1, 2);

  expect_all_at_home(run);
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 1), "restored epoch 1 whole")) << log_of(rank, 1);
}

TEST_F(Replicas, ANodeThatIsAwayWithTheOnlyCopyIsWaitedFor) {
  Process& run = nodes->train_run(job(1, "hold_at: [2]"), 3);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  EXPECT_EQ(kept_on(0), (std::set<std::string>{"data-1-0.1/rank-0000", "data-1-0.2/rank-0000"}));

  nodes->power_off(1);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "waiting 60 s for n1"); }))
      << run.out() << run.err();
  nodes->power_on(1);
  go_on(1, 2);

  expect_all_at_home(run);
  EXPECT_TRUE(contains(log_of(1, 1), "restored epoch 1 whole")) << log_of(1, 1);
}

TEST_F(Replicas, OutliveTheirLauncher) {
  Process& run = nodes->train_run(job(2, "hold_at: [2]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  run.signal(SIGKILL);
  (void)run.wait();
  Process& next = nodes->resume("job");
  ASSERT_TRUE(wait_until([&] { return contains(next.out(), "found"); })) << next.out();
  send_signal(cluster->worker(0).value(), SIGKILL);
  go_on(0, 2);
  go_on(1, 2);

  expect_all_at_home(next);
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 1), "restored epoch 1 whole")) << log_of(rank, 1);
}

TEST_F(Replicas, AreValidatedOnANode) {
  const std::string check = cluster->write(
      "check.sh",
      "cd $TRAINRUN_CHECKPOINT_DIR && test -s rank-0/state.bin && test -s rank-1/state.bin && "
      "echo '{\"found\": 2}' > $TRAINRUN_RESULT_FILE\n");
  Process& run = nodes->train_run(
      job(2, "hold_at: []", fmt::format(", validation: {{command: [sh, '{}']}}", check)), 2);

  expect_all_at_home(run);
  for (int number = 1; number <= kEpochs; ++number)
    EXPECT_TRUE(contains(read_file(checkpoint(number) + "/.validation.json"), "\"found\":2"))
        << number << read_file(checkpoint(number) + "/.validation.json");
}

TEST_F(Replicas, StayWhereTheyAreWhenTheirGatheringIsInterrupted) {
  Process& run = nodes->train_run(job(2, "hold_at: [2]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  for (int node : {0, 1}) network->slow(node, 50);
  run.signal(SIGINT);
  go_on(0, 2);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "bringing "); })) << run.out();
  run.signal(SIGINT);
  EXPECT_NE(run.wait(), 0);
  EXPECT_TRUE(contains(run.out() + run.err(), "stays on n0, n1: ")) << run.out() << run.err();
  ASSERT_FALSE(kept_on(0).empty());
  for (int node : {0, 1}) network->slow(node, 1000);

  Process& next = nodes->resume("job");

  expect_all_at_home(next);
}

}  // namespace
}  // namespace train::e2e
