// A worker that hangs is named: which rank, where, in which phase, and who waits for it. One that
// is slow is not accused.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/e2e/cluster.h"
#include "tests/e2e/stuck_file_system.h"

namespace train::e2e {
namespace {

/// Write a job of two ranks, of which rank 1 hangs. `config` continues train_loop_config,
/// `failure_config` is in flow style.
std::string hanging(const Cluster& cluster, const std::string& config,
                    const std::string& failure_config) {
  return cluster.job("job",
                     "command: [" + program("hanging_worker") + "]\ntrain_loop_config: {" + config +
                         "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                     "  failure_config: {" + failure_config + "}");
}

std::string cause_of(const Cluster& cluster) {
  const auto& json = cluster.exit_json("job");
  return text_of(json, "cause");
}

struct Hang {
  std::string how, where, process;
};

TEST(Hangs, AreNamedWithRankNodePhaseAndWhoWaits) {
  for (const Hang& hang : {
           Hang{"mutex", "hangs in step: no sign of life for",
                "its processes are idle (limit 2.0 s: hang_timeout)"},
           Hang{"loop", "hangs in step: no sign of life for",
                "% of a CPU (limit 4.0 s: twice hang_timeout"},
           Hang{"phase", "hangs in 'download' (3 of 9 GiB): no sign of life for",
                "its processes are idle"},
       }) {
    SCOPED_TRACE(hang.how);
    Cluster cluster;
    EXPECT_EQ(cluster.run({hanging(cluster, "how: " + hang.how, "hang_timeout: 2s")}), 1);
    const std::string cause = cause_of(cluster);
    EXPECT_TRUE(cause.starts_with("rank 1 on ")) << cause;
    EXPECT_TRUE(contains(cause, hang.where)) << cause;
    EXPECT_TRUE(contains(cause, hang.process)) << cause;
    EXPECT_TRUE(contains(cause,
                         "; rank 0 waits in collective 'barrier' (call 4), not entered by "
                         "rank 1 (3 calls made)"))
        << cause;
    EXPECT_TRUE(cluster.workers().empty());
  }
}

/// Return the only file of the attempt's stacks with this ending.
std::string stacks_of(const Cluster& cluster, const std::string& ending) {
  std::string found;
  std::error_code error;
  const std::string folder = cluster.run_dir("job") + "/attempts/000/stacks";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().string().ends_with(ending)) found += cluster.read(entry.path().string());
  return found;
}

TEST(Hangs, LeaveTheStacksOfAllRanks) {
  Cluster cluster;
  Process& run = cluster.train_run({hanging(cluster, "how: mutex", "hang_timeout: 2s")});
  EXPECT_EQ(run.wait(), 1);
  const std::string text = stacks_of(cluster, "-hung.txt");
  EXPECT_TRUE(contains(text, "rank 1 in ")) << text;
  EXPECT_TRUE(contains(text, "rank 0 in ")) << text;
  EXPECT_TRUE(contains(text, "hang(")) << text;  // the function of the program
  EXPECT_TRUE(contains(text, "train::barrier")) << text;
  EXPECT_TRUE(contains(run.out() + run.err(), "stacks of all ranks: ")) << run.out();
  EXPECT_TRUE(contains(run.out() + run.err(), "rank 1 in pthread_mutex_lock")) << run.out();
  EXPECT_FALSE(stacks_of(cluster, "-hung.json").empty());
}

TEST(Stacks, ShowWhereTheWorkersAre) {
  Cluster cluster;
  Process& run = cluster.train_run({hanging(cluster, "how: mutex", "hang_timeout: 1h")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));

  Process& all = cluster.train_run({"stacks", cluster.run_dir("job")});
  EXPECT_EQ(all.wait(), 0) << all.err();
  EXPECT_TRUE(contains(all.out(), "rank 1 in pthread_mutex_lock")) << all.out();
  EXPECT_TRUE(contains(all.out(), "\nrank 1 in ")) << all.out();  // a line of its own
  EXPECT_TRUE(contains(all.out(), "all threads: ")) << all.out();
  EXPECT_FALSE(contains(all.out(), "rank 0, pid ")) << all.out();

  Process& one = cluster.train_run({"stacks", cluster.run_dir("job"), "--rank", "0"});
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_TRUE(contains(one.out(), "rank 0, pid ")) << one.out();
  EXPECT_TRUE(contains(one.out(), "train::barrier")) << one.out();
  EXPECT_FALSE(contains(one.out(), "rank 1")) << one.out();

  Process& json = cluster.train_run({"stacks", cluster.run_dir("job"), "--output", "json"});
  EXPECT_EQ(json.wait(), 0) << json.err();
  EXPECT_EQ(cluster.json_lines(json.out()).size(), 1u);

  // The workers go on: nobody has stopped them for longer than a moment.
  EXPECT_TRUE(run.running());
  EXPECT_EQ(cluster.workers().size(), 2u);
  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(cluster.run({"stacks", cluster.run_dir("job")}), 69);
  EXPECT_EQ(cluster.run({"stacks", cluster.run_dir("job"), "--rank", "3-1"}), 2);
}

TEST(Hangs, AReadOfAPipeThatNobodyWritesIsNamed) {
  Cluster cluster;
  const std::string pipe = cluster.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(cluster.run({hanging(cluster, "how: read, path: " + pipe, "hang_timeout: 2s")}), 1);
  EXPECT_TRUE(contains(cause_of(cluster), "hangs in step")) << cause_of(cluster);
}

// A read that the file system has taken and never answers: not even SIGKILL ends it (state D).
TEST(Hangs, AWorkerThatCannotBeKilledIsNamedAndKeepsNobodyWaiting) {
  Cluster cluster;
  const std::string folder = cluster.path("stuck");
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  const auto stuck = StuckFileSystem::mount_at(folder);
  if (!stuck) GTEST_SKIP() << "needs /dev/fuse and the right to mount";
  Process& run = cluster.train_run(
      {hanging(cluster, "how: read, path: " + stuck->data(), "hang_timeout: 2s, max_failures: 3")});

  EXPECT_EQ(run.wait(Seconds(120)), 1) << run.err();

  const std::string said = run.out() + run.err();
  const std::string where = "in read of '" + stuck->data() + "' (fuse at " + folder + ")";
  EXPECT_TRUE(contains(said, " hangs in step: no sign of life for ")) << said;
  EXPECT_TRUE(contains(said, "; its processes are idle, " + where + " (limit 2.0 s")) << said;
  EXPECT_TRUE(contains(said, "no node is left without a worker that cannot be killed")) << said;
  const std::string cause = cause_of(cluster);
  EXPECT_TRUE(contains(cause, "cannot be killed: it waits in the kernel (state D), " + where))
      << cause;
  EXPECT_EQ(cluster.workers().size(), 1u);  // it is still there
  stuck->abort();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST(Hangs, ADiskThatTakesNoDataIsNamed) {
  Cluster cluster;
  const std::string folder = cluster.path("stuck");
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  const auto stuck = StuckFileSystem::mount_at(folder);
  if (!stuck) GTEST_SKIP() << "needs /dev/fuse and the right to mount";
  Process& run = cluster.train_run({hanging(cluster, "how: write, path: " + stuck->data(),
                                            "phase_timeouts: {save: 2s}, hang_action: observe")});

  EXPECT_TRUE(wait_until([&] { return contains(run.out() + run.err(), " hangs in "); }));

  const std::string said = run.out() + run.err();
  EXPECT_TRUE(contains(said, " hangs in 'save': no sign of life for ")) << said;
  EXPECT_TRUE(contains(said, "in write of '" + stuck->data() + "' (fuse at " + folder + ")"))
      << said;
  EXPECT_TRUE(
      contains(said, "rank 0 waits in collective 'barrier' (call 4), not entered by rank 1"))
      << said;
  stuck->abort();
}

TEST(Hangs, AStoppedProcessIsCalledStoppedAndIsKilled) {
  Cluster cluster;
  Process& run = cluster.train_run({hanging(cluster, "how: none", "hang_timeout: 2s")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() > 10; }));
  send_signal(*cluster.worker(1), SIGSTOP);
  EXPECT_EQ(run.wait(), 1);
  const std::string cause = cause_of(cluster);
  EXPECT_TRUE(contains(cause, "its process is stopped by a signal")) << cause;
  EXPECT_TRUE(cause.starts_with("rank 1 on ")) << cause;
  EXPECT_TRUE(cluster.workers().empty());
}

TEST(Hangs, AreRestartedLikeOtherFailures) {
  Cluster cluster;
  EXPECT_EQ(cluster.run({hanging(cluster, "how: mutex, once: true, steps: 20",
                                 "hang_timeout: 2s, max_failures: 1")}),
            0);
  EXPECT_TRUE(exists(cluster.run_dir("job") + "/attempts/001"));
}

TEST(Hangs, AreOnlySaidWhereTheSpecSaysObserve) {
  Cluster cluster;
  Process& run = cluster.train_run({hanging(cluster, "how: slow, slow_ms: 6000, steps: 400",
                                            "hang_timeout: 2s, hang_action: observe")});
  EXPECT_EQ(run.wait(), 0);
  const std::string said = run.out() + run.err();
  EXPECT_TRUE(contains(said, "hangs in step")) << said;
  EXPECT_TRUE(contains(said, "rank 1 on ")) << said;
  EXPECT_TRUE(contains(said, "moves again, after a silence of")) << said;
}

TEST(Hangs, OfAProgramWithoutTheSdkAreSeenByWhatItUses) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: [" + program("plain_worker") + ", hang]\nbackend: none",
                  "  failure_config: {hang_timeout: 2s}");
  EXPECT_EQ(cluster.run({job}), 1);
  EXPECT_TRUE(contains(cause_of(cluster), "rank 0 on ")) << cause_of(cluster);
  EXPECT_TRUE(contains(cause_of(cluster), " hangs: it has done nothing for "));
}

TEST(Hangs, OfProgramsWithoutTheSdkTheStoppedOneIsBlamed) {
  Cluster cluster;
  const std::string job =
      cluster.job("job",
                  "command: [" + program("plain_worker") +
                      ", hang]\nbackend: none\n"
                      "scaling_config: {num_workers: 3, resources_per_worker: {CPU: 0}}",
                  "  failure_config: {hang_timeout: 6s}");
  Process& run = cluster.train_run({job});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 3; })) << run.out();
  send_signal(*cluster.worker(2), SIGSTOP);

  EXPECT_EQ(run.wait(), 1) << run.err();

  const std::string cause = cause_of(cluster);
  EXPECT_TRUE(cause.starts_with("rank 2 on ")) << cause;
  EXPECT_TRUE(contains(cause, " hangs: it has done nothing for ")) << cause;
  EXPECT_TRUE(contains(cause, "; its process is stopped by a signal (limit 6.0 s")) << cause;
  EXPECT_TRUE(contains(cause, "; ranks 0, 1 do nothing either, and may wait for it")) << cause;
  EXPECT_TRUE(
      contains(run.out() + run.err(), "the state of its processes, and what they have used"))
      << run.out() << run.err();
}

TEST(Hangs, NobodyIsAccusedWhoIsSlowWithinItsLimits) {
  for (const char* config :
       {"how: slow, slow_ms: 4000, steps: 10", "how: slow phase, slow_ms: 4000, steps: 10"}) {
    SCOPED_TRACE(config);
    Cluster cluster;
    Process& run = cluster.train_run(
        {hanging(cluster, config, std::string("hang_timeout: 2s, phase_timeouts: {step: 1h}"))});
    EXPECT_EQ(run.wait(), 0) << run.err();
    EXPECT_FALSE(contains(run.out() + run.err(), "hangs")) << run.out() << run.err();
  }
}

// The launcher that takes over learns of the silence from the first samples that it gets.
TEST(Hangs, AreNamedByALauncherThatCameLater) {
  Cluster cluster;
  Process& run = cluster.train_run({hanging(cluster, "how: mutex", "hang_timeout: 8s")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));
  run.signal(SIGKILL);
  run.wait();
  EXPECT_EQ(cluster.run({"resume", cluster.run_dir("job")}), 1);
  EXPECT_TRUE(contains(cause_of(cluster), "rank 1 on ")) << cause_of(cluster);
  EXPECT_TRUE(contains(cause_of(cluster), "hangs in step")) << cause_of(cluster);
}

}  // namespace
}  // namespace train::e2e
