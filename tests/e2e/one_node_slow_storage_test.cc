// Storage is slow, hangs or fails below runs of real processes. They load programs/slow_storage.cc,
// which follows the rules of each test.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
constexpr const char* kOverQuota =
    "remove files of yours there, or ask for a larger quota; `quota -s` shows it";

class SlowStorage : public ::testing::Test {
 protected:
  /// Train with one worker, which begins an epoch of hold_at only after go(epoch).
  Process& train(const std::string& config, const std::string& checkpoint_config = "{}",
                 const std::string& mode = "epochs") {
    const std::string job = cluster.job(
        "job",
        fmt::format(
            "command: [{}]\nscaling_config: {{num_workers: 1}}\ntrain_loop_config: {{mode: {}, "
            "hold_file: '{}', {}}}\n",
            program("sdk_worker"), mode, cluster.path("go"), config),
        fmt::format("  failure_config: {{stop_grace: 500ms}}\n  checkpoint_config: {}\n",
                    checkpoint_config));
    return cluster.train_run({job}, faults());
  }
  StartOptions faults() const {
    return {.env = {{"LD_PRELOAD", program("libslow_storage.so")},
                    {"SLOW_STORAGE_DIR", cluster.storage()},
                    {"SLOW_STORAGE_RULES", cluster.path("rules")}},
            .prefix = {},
            .cwd = ""};
  }
  void go(int epoch) { cluster.write(fmt::format("go-0-{}", epoch), ""); }
  /// Put rules into force. Write them elsewhere first, so that nobody reads half of them.
  void rules(const std::string& lines) {
    fs::rename(cluster.write("rules.new", lines), cluster.path("rules"));
  }
  /// Return the calls that matched a rule: "traind fsync hang INODE PATH".
  Names calls(const std::string& beginning = "") const {
    Names found;
    std::istringstream lines(cluster.read(cluster.path("rules.log")));
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(beginning)) found.push_back(line);
    return found;
  }
  /// Return the entries of the checkpoint folder that begin like this.
  Names in_checkpoints(const std::string& beginning) const {
    Names names;
    for (const auto& entry : fs::directory_iterator(cluster.run_dir("job") + "/checkpoints")) {
      const std::string name = entry.path().filename();
      if (name.starts_with(beginning)) names.push_back(name);
    }
    return names;
  }
  /// Start a run whose launcher's main thread hangs while it writes what a worker has printed.
  Process& start_one_that_hangs() {
    const std::string job = cluster.job("job", fmt::format("command: [{}, print, ready, hang]\n"
                                                           "scaling_config: {{num_workers: 1}}\n",
                                                           program("plain_worker")));
    rules("train-run write hang 0 /attempts/\n");
    Process& run = cluster.train_run({job}, faults());
    EXPECT_TRUE(wait_until([&] { return calls("train-run write hang").size() == 1; }));
    return run;
  }
  bool has_said(const Process& run, const std::string& text) const {
    return contains(run.out() + run.err(), text);
  }
  /// Check that these are all checkpoints, and that each is intact.
  void expect_intact(const Names& names) {
    EXPECT_EQ(cluster.checkpoints("job"), names);
    Process& verify = cluster.train_run({"checkpoint", "verify", cluster.run_dir("job")});
    EXPECT_EQ(verify.wait(), 0) << verify.out() << verify.err();
  }
  /// Check that the run resumes and finishes once the storage answers again.
  void expect_resumed(const Names& checkpoints) {
    Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});
    EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
    expect_intact(checkpoints);
    // The supervisor removes its own folder at its end, which train-run does not wait for.
    EXPECT_TRUE(wait_until([&] { return in_checkpoints(".").empty(); }));
  }
  /// Check that the run trained to its end without a restart.
  void expect_trained(Process& run, int epochs) {
    EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
    expect_one_attempt(cluster, "job", 1, epochs);
    EXPECT_TRUE(nothing_left(cluster));
  }

  Cluster cluster;
};

TEST_F(SlowStorage, OutputThatTheDiskDoesNotTakeHoldsUpNobody) {
  const std::string job =
      cluster.job("job",
                  "command: [sh, -c, 'head -c 1000000 /dev/zero | tr \"\\0\" x; echo; exit 3']\n"
                  "scaling_config: {num_workers: 1}\n");
  rules("train-run write enospc 0 /attempts/\n");

  Process& run = cluster.train_run({job}, faults());

  EXPECT_EQ(run.wait(), 3) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, "workers' output is lost: ")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(SlowStorage, TrainingGoesOnWhileTwoCheckpointsAreBeingStored) {
  rules("traind fsync hang 0 .rank-\n");
  Process& run = train("epochs: 40, checkpoint_every: 10");

  // A third checkpoint would be one too many, so its report waits.
  EXPECT_TRUE(wait_until([&] {
    return cluster.metrics("job").size() == 29 && calls("traind fsync hang").size() == 2;
  }));
  EXPECT_EQ(in_checkpoints(".tmp-").size(), 2u);
  EXPECT_EQ(cluster.checkpoints("job"), Names{});

  rules("traind fsync delay 2 .rank-\n");
  expect_trained(run, 40);
  expect_intact(
      {"checkpoint_000001", "checkpoint_000002", "checkpoint_000003", "checkpoint_000004"});
  EXPECT_GE(calls("traind fsync delay").size(), 4u);
}

TEST_F(SlowStorage, AShardThatIsNotStoredInTimeIsGivenUpAndTheNextOnesAreKept) {
  rules("traind fsync hang 0 .rank-\n");
  Process& run = train("epochs: 4, hold_at: [2]", "{upload_timeout: 2s}");

  const std::string why =
      fmt::format("rank 0: not stored within 2.0 s in '{}/checkpoints'", cluster.run_dir("job"));
  for (int index = 1; index <= 2; ++index) {
    EXPECT_TRUE(wait_until([&] {
      return has_said(run, fmt::format("checkpoint {} of attempt 0 is not kept: {}", index, why));
    })) << run.out();
  }
  EXPECT_TRUE(has_said(run, "checkpoint_config.upload_timeout"));
  EXPECT_TRUE(has_said(run, "training continues"));
  EXPECT_EQ(in_checkpoints(".tmp-").size(), 2u);

  rules("");
  EXPECT_TRUE(wait_until([&] { return in_checkpoints(".tmp-").empty(); }));  // by the late threads
  go(2);
  expect_trained(run, 4);
  expect_intact({"checkpoint_000001", "checkpoint_000002"});
}

TEST_F(SlowStorage, WritesThatHangForEverKeepNeitherLaterOnesNorTheEndWaiting) {
  rules(
      "traind fsync hang 0 /.tmp-1-0.1/\ntraind fsync hang 0 /.tmp-1-0.2/\n"
      "traind fsync hang 0 /.tmp-1-0.3/\n");
  Process& run = train("epochs: 5", "{upload_timeout: 1s}");

  expect_trained(run, 5);
  expect_intact({"checkpoint_000001", "checkpoint_000002"});
  EXPECT_TRUE(has_said(run, "checkpoint 3 of attempt 0 is not kept: ")) << run.out();
  EXPECT_TRUE(has_said(run, "', where 2 more hang (")) << run.out();
}

TEST_F(SlowStorage, FilesThatCannotBeRemovedDoNotKeepASupervisor) {
  Process& run = train("epochs: 2, checkpoint_every: 3, hold_at: [1]");
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() == 1; }));
  rules("traind unlink hang 0 /.staging-0\n");
  go(1);

  expect_trained(run, 2);
  EXPECT_EQ(calls("traind unlink hang").size(), 1u);
}

TEST_F(SlowStorage, AFileWhoseSyncFailedIsWrittenAnewAndNeverSyncedAgain) {
  Process& run = train("epochs: 2, hold_at: [1]");
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
  rules("traind fsync eio 1 .rank-0000/\n");
  go(1);

  expect_trained(run, 2);
  expect_intact({"checkpoint_000001", "checkpoint_000002"});
  const Names synced = calls("traind fsync");
  ASSERT_EQ(synced.size(), 2u);
  struct stat kept {};
  ASSERT_EQ(
      ::stat((cluster.run_dir("job") + "/checkpoints/checkpoint_000002/state.json").c_str(), &kept),
      0);
  EXPECT_TRUE(contains(synced[0], "/state.json")) << synced[0];
  EXPECT_FALSE(contains(synced[0], fmt::format(" {} ", kept.st_ino))) << synced[0];
  EXPECT_TRUE(synced[1].starts_with(fmt::format("traind fsync none {} ", kept.st_ino)))
      << synced[1];
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/checkpoints/checkpoint_000002/state.json"),
            R"({"epoch":1})");
}

TEST_F(SlowStorage, ACommitWhoseSyncFailedIsGivenUpAndTheOneBeforeStays) {
  Process& run = train("epochs: 3, hold_at: [1, 2]");
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
  rules("train-run fsync eio 1 .manifest.json\n");
  go(1);
  EXPECT_TRUE(wait_until([&] { return has_said(run, "checkpoint 2 of attempt 0 is not kept: "); }));
  EXPECT_TRUE(has_said(run, "Input/output error")) << run.out();
  EXPECT_EQ(cluster.checkpoints("job"), Names{"checkpoint_000001"});
  EXPECT_EQ(in_checkpoints(".tmp-"), Names{});
  go(2);

  expect_trained(run, 3);
  expect_intact({"checkpoint_000001", "checkpoint_000003"});
}

TEST_F(SlowStorage, AQuotaIsSaidAsOne) {
  Process& run = train("epochs: 4, hold_at: [1, 2, 3]");
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
  rules("sdk_worker write edquot 1 /.staging-0/\n");  // while the worker makes its shard
  go(1);
  const std::string worker = fmt::format(
      "checkpoint 2 of attempt 0 is not kept: rank 0: writing '{}/checkpoints/.staging-0/",
      cluster.run_dir("job"));
  EXPECT_TRUE(wait_until([&] { return has_said(run, worker); })) << run.out();
  rules("train-run write edquot 1 .manifest.json\n");  // while the launcher commits
  go(2);
  const std::string launcher = fmt::format(
      "checkpoint 3 of attempt 0 is not kept: committing checkpoint_000002: writing '{}/"
      "checkpoints/.tmp-1-0.3/.manifest.json': Disk quota exceeded ({}); training continues",
      cluster.run_dir("job"), kOverQuota);
  EXPECT_TRUE(wait_until([&] { return has_said(run, launcher); })) << run.out();
  go(3);

  expect_trained(run, 4);
  EXPECT_TRUE(has_said(run, fmt::format("/state.json': Disk quota exceeded: 0 bytes were written "
                                        "({}); training continues",
                                        kOverQuota)))
      << run.out();
  EXPECT_FALSE(has_said(run, " free in ")) << run.out();  // that is not the cause
  EXPECT_EQ(cluster.checkpoints("job").size(), 2u);
  EXPECT_EQ(calls("sdk_worker write edquot").size(), 1u);
  EXPECT_EQ(calls("train-run write edquot").size(), 1u);
}

TEST_F(SlowStorage, AWriterThatAsksNobodyKeepsNoFileThatAQuotaCutShort) {
  rules("sdk_worker write edquot 0 /ckpt-2\n");
  Process& run = train("sizes: [1000, 2000], careless: true", "{}", "sizes");

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, fmt::format("/ckpt-2': Disk quota exceeded, its files may be short: 0 "
                                        "bytes were written ({})",
                                        kOverQuota)))
      << run.out();
  expect_intact({"checkpoint_000001"});
}

TEST_F(SlowStorage, AWorkerWhoseFolderCannotBeMadeCanBeStopped) {
  rules("traind mkdir hang 0 /.staging-0/rank-\n");
  Process& run = train("epochs: 2");
  ASSERT_TRUE(wait_until([&] { return calls("traind mkdir hang").size() == 1; }));

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST_F(SlowStorage, ASecondInterruptDoesNotWaitForAShardThatHangs) {
  rules("traind fsync hang 0 .rank-\n");
  Process& run = train("epochs: 2, hold_at: [1]");
  ASSERT_TRUE(wait_until([&] { return calls("traind fsync hang").size() == 1; }));
  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return cluster.workers().empty(); }));

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, fmt::format("not waiting for nodes to finish writing to '{}': "
                                        "the run was told to stop immediately",
                                        cluster.storage())))
      << run.out();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  expect_resumed({"checkpoint_000001", "checkpoint_000002"});
}

TEST_F(SlowStorage, ALauncherWhoseMainThreadHangsEndsWithTheSecondInterrupt) {
  Process& run = start_one_that_hangs();

  run.signal(SIGINT);
  run.signal(SIGTERM);

  const auto code = run.wait();  // the second signal's code
  EXPECT_TRUE(code == 130 || code == 143) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, "a call to the run's storage is stuck")) << run.err();
}

TEST_F(SlowStorage, AndAtOnceWithTheThird) {
  Process& run = start_one_that_hangs();

  for (const int number : {SIGINT, SIGTERM, SIGHUP}) run.signal(number);

  const auto code = run.wait();  // the last signal's code
  EXPECT_TRUE(code == 129 || code == 130 || code == 143) << run.out() << run.err();
  // Only a launcher that waits for the call prints this.
  EXPECT_FALSE(has_said(run, "a call to the run's storage is stuck")) << run.err();
}

/// A commit hangs while the run goes on.
class HangingCommit : public SlowStorage {
 protected:
  /// The first checkpoint is committed. The second waits in `call`, for `.manifest.json` by
  /// default. The worker waits before its third epoch.
  Process& train_until_it_hangs(const std::string& checkpoint_config = "{}",
                                const std::string& call = "fsync hang 0 .manifest.json") {
    Process& run = train("epochs: 5, hold_at: [1, 2, 3]", checkpoint_config);
    EXPECT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
    rules("train-run " + call + "\n");
    go(1);
    EXPECT_TRUE(wait_until([&] {
      return calls("train-run ").size() == 1 && cluster.metrics("job").size() == 2;
    })) << run.out();
    return run;
  }
  std::string text(const std::string& format) const {
    return fmt::format(fmt::runtime(format), cluster.storage());
  }
};

TEST_F(HangingCommit, IsSaidAndTrainingGoesOnAndItIsKeptOnceTheStorageAnswers) {
  Process& run = train_until_it_hangs("{upload_timeout: 20s}");
  go(2);
  EXPECT_TRUE(wait_until([&] {
    return has_said(
        run, text("checkpoint 2 of attempt 0 is not committed for 10.0 s: '{}' does "
                  "not answer; training continues until the second checkpoint after it is due"));
  })) << run.out();
  EXPECT_EQ(cluster.metrics("job").size(), 3u);
  rules("");
  go(3);

  expect_trained(run, 5);
  expect_intact({"checkpoint_000001", "checkpoint_000002", "checkpoint_000003", "checkpoint_000004",
                 "checkpoint_000005"});
}

TEST_F(HangingCommit, IsGivenUpInTimeAndTheNextOnesAreKeptOnceTheStorageAnswers) {
  Process& run = train_until_it_hangs("{upload_timeout: 2s}");
  go(2);  // its commit waits for the hanging thread
  for (const int index : {2, 3}) {
    const std::string lost = fmt::format(
        "checkpoint {} of attempt 0 is not kept: '{}' did not answer within 2.0 s "
        "(the limit is checkpoint_config.upload_timeout); training continues",
        index, cluster.storage());
    EXPECT_TRUE(wait_until([&] { return has_said(run, lost); })) << run.out();
  }
  rules("");
  EXPECT_TRUE(wait_until([&] { return in_checkpoints(".tmp-").empty(); }));
  go(3);

  expect_trained(run, 5);
  expect_intact({"checkpoint_000001", "checkpoint_000004", "checkpoint_000005"});
}

TEST_F(HangingCommit, OneThatWasAboutToAppearIsTakenForWhatItIs) {
  Process& run = train_until_it_hangs("{upload_timeout: 2s}", "rename hang 0 /checkpoint_000002");
  EXPECT_TRUE(wait_until([&] {
    return has_said(run, "checkpoint 2 of attempt 0 may not be kept: ") &&
           has_said(run, "`train-run checkpoint list` will show it if it was");
  })) << run.out();
  EXPECT_EQ(cluster.checkpoints("job"), Names{"checkpoint_000001"});
  rules("");
  EXPECT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 2; }));
  for (const int epoch : {2, 3}) go(epoch);

  expect_trained(run, 5);
  expect_intact({"checkpoint_000001", "checkpoint_000002", "checkpoint_000003", "checkpoint_000004",
                 "checkpoint_000005"});
}

TEST_F(HangingCommit, TheEndOfTheRunWaitsForItNoLongerThanThat) {
  Process& run = train("epochs: 2, hold_at: [1]", "{upload_timeout: 4s}");
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
  rules("train-run fsync hang 0 .manifest.json\n");
  go(1);

  expect_trained(run, 2);
  EXPECT_TRUE(has_said(run, "for checkpoint 2 of attempt 0 to be committed; Ctrl-C gives it up"))
      << run.out();
  EXPECT_TRUE(has_said(run, text("checkpoint 2 of attempt 0 is not kept: '{}' did not answer "
                                 "within 4.0 s")))
      << run.out();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
  expect_intact({"checkpoint_000001"});
}

TEST_F(HangingCommit, ASecondInterruptEndsTheRunAndResumeGoesOnFromTheOneBefore) {
  Process& run = train_until_it_hangs();
  run.signal(SIGINT);
  EXPECT_TRUE(wait_until([&] {
    return has_said(run, "for checkpoint 2 of attempt 0 to be committed; Ctrl-C gives it up");
  })) << run.out();
  EXPECT_TRUE(cluster.workers().empty());

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, text("checkpoint 2 of attempt 0 is not kept: '{}' had not answered "
                                 "for ")))
      << run.out();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "outcome"), "interrupted");
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  expect_intact({"checkpoint_000001"});
  expect_resumed({"checkpoint_000001", "checkpoint_000002", "checkpoint_000003",
                  "checkpoint_000004", "checkpoint_000005"});
}

/// In the end, each call of the launcher to its storage hangs.
TEST_F(SlowStorage, ARunWhoseEndCannotBeWrittenEndsWithTheSecondInterrupt) {
  Process& run = train("epochs: 3, hold_at: [1]");
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() == 1; }));
  rules("train-run fsync hang 0 *\n");
  run.signal(SIGINT);
  EXPECT_TRUE(wait_until([&] { return cluster.workers().empty(); }));
  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(has_said(run, fmt::format("the end of this run may not be written: '{}' does not "
                                        "answer",
                                        cluster.run_dir("job"))))
      << run.out();
  expect_resumed({"checkpoint_000001", "checkpoint_000002", "checkpoint_000003"});
}

}  // namespace
}  // namespace train::e2e
