// Storage that differs between nodes, and storage that is full. Each test has its own mounts, which
// nobody else sees.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

class Storage : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      missing_ = fmt::format("nothing can be mounted here: {}", std::strerror(errno));
  }
  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << "SKIPPED: " << missing_;
    ::mkdir(cluster.storage().c_str(), 0755);
  }
  void TearDown() override { ::umount2(cluster.storage().c_str(), MNT_DETACH); }

  bool mount_small() const {
    return ::mount("none", cluster.storage().c_str(), "tmpfs", 0, "size=8m") == 0;
  }
  /// Return a job with one worker that hands over a checkpoint of each size.
  std::string job(const std::string& config, const std::string& checkpoints) const {
    return cluster.job("job",
                       fmt::format("command: [{}]\nscaling_config: {{num_workers: 1}}\n"
                                   "train_loop_config: {{mode: sizes, {}}}\n",
                                   program("sdk_worker"), config),
                       fmt::format("  failure_config: {{max_failures: 5}}\n"
                                   "  checkpoint_config: {}\n",
                                   checkpoints));
  }
  /// Return names in the run's folder that users should not see.
  std::vector<std::string> marks() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cluster.run_dir("job"))) {
      if (entry.path().filename().string().starts_with(".probe")) names.push_back(entry.path());
    }
    return names;
  }

  Cluster cluster;
  static std::string missing_;
};
std::string Storage::missing_;

TEST_F(Storage, ANodeWithAnotherFolderOfThatNameIsNamedBeforeAnythingStarts) {
  Nodes nodes(cluster, 2);
  nodes.start(0);
  const std::string hide = fmt::format(
      "mount -t tmpfs none {0} && mkdir {0}/job && exec \"$0\" \"$@\"", cluster.storage());
  nodes.start(1, {"--resource", "CPU=2"}, {"unshare", "-m", "sh", "-c", hide});
  const std::string job =
      cluster.job("job",
                  "command: 'touch started'\nworking_dir: " + cluster.dir() +
                      "\nscaling_config: {num_workers: 2, placement_strategy: SPREAD}\n",
                  "  shared_storage: required\n");

  Process& run = nodes.train_run(job, 2);

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  const std::string text = fmt::format(
      "no worker could be started on n1: '{}' is not the launcher's storage: it exists, but lacks "
      "this launcher's marker (is the same file system mounted there?",
      cluster.run_dir("job"));
  EXPECT_TRUE(contains(run.out(), text)) << run.out() << run.err();
  EXPECT_FALSE(exists(cluster.path("started")));
  EXPECT_EQ(marks(), std::vector<std::string>{});
}

TEST_F(Storage, ACheckpointThatDoesNotFitIsGivenUpAndTrainingGoesOn) {
  ASSERT_TRUE(mount_small());

  Process& run = cluster.train_run({job("sizes: [2000000, 9000000, 1000000]", "{num_to_keep: 2}")});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(cluster.checkpoints("job"),
            (std::vector<std::string>{"checkpoint_000001", "checkpoint_000002"}));
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
  EXPECT_TRUE(contains(run.out(), "checkpoint 2 of attempt 0 is not kept: rank 0: "))
      << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), " bytes were written, ")) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), " are free in ")) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "training continues")) << run.out() << run.err();
  EXPECT_EQ(cluster.metrics("job").size(), 3u);
  EXPECT_EQ(std::filesystem::file_size(cluster.run_dir("job") +
                                       "/checkpoints/checkpoint_000001/state.bin"),
            2000000u);
  EXPECT_EQ(marks(), std::vector<std::string>{});
}

TEST_F(Storage, AWriterThatAsksNobodyWhetherItFitKeepsNoShortFile) {
  ASSERT_TRUE(mount_small());

  Process& run =
      cluster.train_run({job("sizes: [2000000, 9000000], careless: true", "{num_to_keep: 2}")});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(cluster.checkpoints("job"), (std::vector<std::string>{"checkpoint_000001"}));
  EXPECT_TRUE(contains(run.out(), ": No space left on device, its files may be short: "))
      << run.out() << run.err();
}

TEST_F(Storage, ThreeCheckpointsInARowThatDoNotFitFailTheRun) {
  ASSERT_TRUE(mount_small());

  Process& run = cluster.train_run(
      {job(fmt::format("sizes: [5000000, 5000000, 5000000, 5000000], wait_for: '{}'",
                       cluster.path("go")),
           "{num_to_keep: 1}")});

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  EXPECT_TRUE(
      contains(run.out(), "the next checkpoint may not fit: the last one has 5000000 bytes"))
      << run.out() << run.err();
  EXPECT_TRUE(contains(
      run.out(), "3 checkpoints in a row were not kept for lack of space; the last: rank 0: "))
      << run.out() << run.err();
  EXPECT_EQ(cluster.checkpoints("job"), (std::vector<std::string>{"checkpoint_000001"}));
}

}  // namespace
}  // namespace train::e2e
