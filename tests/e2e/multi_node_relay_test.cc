// The launcher relays the checkpoints of nodes that do not see the run's storage, while workers,
// daemons and launchers die. n0 sees the storage; n1 and n2 have an empty folder there.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

class Relay : public NoStorage {
 protected:
  void SetUp() override {
    NoStorage::SetUp();
    if (IsSkipped()) return;
    nodes->start(0);
    start_without_storage(1);
  }

  std::string job(const std::string& loop, const std::string& failures = "max_failures: 1") const {
    return NoStorage::job(loop, fmt::format("  failure_config: {{{}, node_suspect_after: 1s, "
                                            "node_dead_after: 20s, stop_grace: 1s}}\n",
                                            failures));
  }
  /// Return whether some of a shard has arrived from a node, but not all of it.
  bool is_relaying() const {
    std::error_code ec;
    const fs::path folder = cluster->run_dir("job") + "/checkpoints";
    for (auto it = fs::recursive_directory_iterator(folder, ec); it != fs::end(it);
         it.increment(ec)) {
      if (ec) return false;
      const bool fetched = it->path().filename().string().starts_with(".fetch-");
      if (fetched && fs::file_size(it->path(), ec) > (1u << 20) && !ec) return true;
    }
    return false;
  }
  /// Return whether the supervisor on n0 has rank 0's shard of the first checkpoint.
  bool first_is_handed_over() const {
    return exists(cluster->run_dir("job") + "/checkpoints/.tmp-1-0.1/.rank-0000/small-0");
  }
  /// Check that all checkpoints are there and intact, and that n1 and n2 keep nothing.
  void expect_complete_end(Process& run) {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    EXPECT_EQ(cluster->checkpoints("job").size(), static_cast<std::size_t>(kEpochs));
    EXPECT_EQ(cluster->run({"checkpoint", "verify", cluster->run_dir("job")}), 0);
    for (int node : {1, 2})
      EXPECT_TRUE(wait_until([&] { return kept_on(node).empty(); })) << kept_on(node).front();
  }
  std::vector<std::string> kept_on(int node) const {
    std::vector<std::string> names;
    std::error_code ec;
    for (const auto& entry :
         fs::directory_iterator(cluster->path(fmt::format("sp-n{}/data", node)), ec))
      names.push_back(entry.path());
    return names;
  }
};

TEST_F(Relay, CheckpointsOfANodeWithoutTheStorageAreCommittedAndRestored) {
  Process& run = nodes->train_run(job("hold_at: [2]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();

  send_signal(cluster->worker(1).value(), SIGKILL);
  go_on(1, 2);

  expect_complete_end(run);
  EXPECT_TRUE(contains(run.out(), fmt::format("n1 has no access to '{}': train-run relays its "
                                              "checkpoints",
                                              cluster->run_dir("job"))))
      << run.out();
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 1), "restored epoch 1 whole")) << log_of(rank, 1);
  EXPECT_EQ(restarts(*cluster, "job"), 1);
}

TEST_F(Relay, ANodeThatHadNothingOfItGetsAllOfIt) {
  start_without_storage(2);
  Process& run = nodes->train_run(job("hold_at: [2]", "max_failures: 2"), 3);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  ASSERT_EQ(nodes->workers_on(2).size(), 0u);

  nodes->power_off(1);
  go_on(1, 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(log_of(1, 1), "restored epoch 1 whole")) << log_of(1, 1) << run.out();
  EXPECT_TRUE(contains(run.out(), "n2 has no access to")) << run.out();
  EXPECT_EQ(cluster->run({"checkpoint", "verify", cluster->run_dir("job")}), 0);
}

TEST_F(Relay, ALauncherThatIsKilledMeanwhileCostsNothing) {
  network->slow(1, 100);
  Process& run = nodes->train_run(job("hold_at: [3]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(1) && is_relaying(); })) << run.out() << run.err();

  send_signal(run.pid(), SIGKILL);
  (void)run.wait();
  EXPECT_FALSE(committed(4));
  Process& next = nodes->resume("job");
  go_on(0, 3);

  expect_complete_end(next);
  EXPECT_EQ(restarts(*cluster, "job"), 0);
}

TEST_F(Relay, ATraindThatIsKilledMeanwhileCostsNothing) {
  network->slow(1, 100);
  Process& run = nodes->train_run(job("hold_at: [3]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(1) && is_relaying(); })) << run.out() << run.err();

  nodes->daemon(1).signal(SIGKILL);
  (void)nodes->daemon(1).wait();
  EXPECT_FALSE(committed(4));
  start_without_storage(1);
  go_on(0, 3);

  expect_complete_end(run);
  EXPECT_EQ(restarts(*cluster, "job"), 0);
}

// A checkpoint on its way when the group fails is committed if all ranks have handed theirs over.
TEST_F(Relay, AWorkerThatDiesWhileItsShardIsRelayedLosesNoCheckpoint) {
  network->slow(1, 50);
  Process& run = nodes->train_run(job("hold_at: [1]"), 2);
  ASSERT_TRUE(wait_until([&] { return first_is_handed_over() && is_relaying(); }))
      << run.out() << run.err();

  send_signal(cluster->worker(1).value(), SIGKILL);
  go_on(1, 1);

  expect_complete_end(run);
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 1), "restored epoch 0 whole")) << log_of(rank, 1);
}

// Rank 0, whose node reads the storage itself, would find the same.
TEST_F(Relay, AFileThatHasChangedIsNamedAndTheCheckpointBeforeIsTaken) {
  Process& run = nodes->train_run(job("hold_at: [2], restore_hold: [1]"), 2);
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  // Do not change rank 1's file: n1 has those bytes as well, and does not ask for them.
  const std::string file =
      cluster->run_dir("job") + "/checkpoints/checkpoint_000002/rank-0/state.bin";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(12345).put('!');
  go_on(2, 2);

  send_signal(cluster->worker(1).value(), SIGKILL);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "skipping checkpoint_000002, which is not intact: bringing '") &&
              contains(run.out(), "'rank-0/state.bin' came with 33554432 bytes and xxh3-128 ") &&
              contains(run.out(), "; continuing from checkpoint_000001"))
      << run.out() << run.err();
  for (int rank : {0, 1})
    EXPECT_TRUE(contains(log_of(rank, 2), "restored epoch 0 whole")) << log_of(rank, 2);
  EXPECT_EQ(cluster->run({"checkpoint", "verify", cluster->run_dir("job"), "latest"}), 0);
}

}  // namespace
}  // namespace train::e2e
