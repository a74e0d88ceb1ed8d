// The launcher dies, and another one resumes the run. Its workers never stop, and their reports are
// neither lost nor duplicated.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;

class Resume : public ::testing::Test {
 protected:
  /// Start two workers that report kEpochs epochs, each with a checkpoint, and wait before the
  /// epochs of `hold_at`.
  Process& start(const std::string& hold_at, const std::string& failure_config = "{}",
                 const std::string& more = "") {
    return cluster.train_run({cluster.job(
        "job",
        fmt::format("command: [{}]\nscaling_config: {{num_workers: 2, resources_per_worker: {{CPU: "
                    "0}}}}\ntrain_loop_config: {{mode: epochs, epochs: {}, on_stop: true, "
                    "hold_file: '{}', hold_at: {}{}}}\n",
                    program("sdk_worker"), kEpochs, cluster.path("go"), hold_at, more),
        "  failure_config: " + failure_config + "\n")});
  }
  Process& resume() { return cluster.train_run({"resume", cluster.run_dir("job")}); }
  void go_on(int epoch, int attempt = 0) {
    cluster.write(fmt::format("go-{}-{}", attempt, epoch), "");
  }
  bool committed(std::size_t count) {
    return wait_until([&] { return cluster.checkpoints("job").size() >= count; });
  }
  static void kill_and_reap(Process& run) {
    run.signal(SIGKILL);
    ASSERT_EQ(run.wait(), 137);
  }

  Cluster cluster;
};

TEST_F(Resume, TheWorkersOfAKilledLauncherGoOnUnderTheNextOne) {
  Process& first = start("[6]");
  ASSERT_TRUE(committed(6));
  const std::set<pid_t> workers = cluster.worker_pids();
  kill_and_reap(first);
  go_on(6);  // they finish the epochs while nobody listens
  Process& second = resume();

  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_EQ(workers.size(), 2u);
  EXPECT_TRUE(contains(second.out(), "attempt 0: found 2 workers still running")) << second.out();
  expect_one_attempt(cluster, "job", 2, kEpochs);
  EXPECT_EQ(cluster.checkpoints("job").back(), fmt::format("checkpoint_{:06}", kEpochs));
  for (const auto& event : cluster.journal("job")) {
    if (text_of(event, "event") != "checkpoint_committed") continue;
    // Checkpoints whose reports the first launcher had written have their metrics, too.
    EXPECT_NE(text_of(event, "trained_epoch"), "-1") << text_of(event, "checkpoint");
  }
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Resume, TheSameProcessesTrainOnWhileLaunchersComeAndGo) {
  Process* run = &start("[2, 4, 6, 8]");
  std::set<pid_t> workers;
  for (int epoch : {2, 4, 6, 8}) {
    ASSERT_TRUE(committed(static_cast<std::size_t>(epoch))) << run->out() << run->err();
    if (workers.empty()) workers = cluster.worker_pids();
    EXPECT_EQ(cluster.worker_pids(), workers);
    kill_and_reap(*run);
    run = &resume();
    ASSERT_TRUE(wait_until([&] { return contains(run->out(), "still running"); })) << run->err();
    go_on(epoch);
  }
  EXPECT_EQ(run->wait(), 0) << run->out() << run->err();
  expect_one_attempt(cluster, "job", 2, kEpochs);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Resume, LauncherAndDaemonMayDieTogether) {
  Process& first = start("[6]");
  ASSERT_TRUE(committed(6));
  const std::set<pid_t> workers = cluster.worker_pids();
  kill_and_reap(first);
  for (const Seen& seen : cluster.processes("traind --private")) send_signal(seen.pid, SIGKILL);
  Process& second = resume();
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); }))
      << second.out() << second.err();
  EXPECT_EQ(cluster.worker_pids(), workers);
  go_on(6);
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  expect_one_attempt(cluster, "job", 2, kEpochs);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Resume, AWorkerThatDiedMeanwhileIsAFailureWithItsCause) {
  Process& first = start("[6]", "{max_failures: 0}");
  ASSERT_TRUE(committed(6));
  kill_and_reap(first);
  send_signal(*cluster.worker(1), SIGSEGV);
  Process& second = resume();
  EXPECT_EQ(second.wait(), 139) << second.out();
  EXPECT_TRUE(contains(second.out(), "rank 1")) << second.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Resume, AFailureBeforeTheNewestCheckpointIsForgottenByTheNextLauncherToo) {
  Process& first = start("[3, 6]", "{max_failures: 1}", ", hold_attempts: 3");
  ASSERT_TRUE(committed(3));
  send_signal(*cluster.worker(1), SIGSEGV);
  go_on(3, 1);
  ASSERT_TRUE(committed(6)) << first.out();
  kill_and_reap(first);
  Process& second = resume();
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); })) << second.out();

  send_signal(*cluster.worker(1), SIGSEGV);
  go_on(6, 2);

  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(contains(second.out(), "restored epoch 5")) << second.out();
}

TEST_F(Resume, WithoutItsWorkersTheRunBeginsAgainFromTheCheckpoint) {
  Process& first = start("[6]", "{max_failures: 0}");
  ASSERT_TRUE(committed(6));
  kill_and_reap(first);
  for (const Seen& seen : cluster.processes("traind --private")) send_signal(seen.pid, SIGKILL);
  for (const Seen& seen : cluster.processes("supervise")) send_signal(seen.pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
  Process& second = resume();
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(contains(second.out(), "restored epoch 5")) << second.out();
}

TEST_F(Resume, CtrlCAfterResumingStopsInGoodOrder) {
  Process& first = start("[6]", "{}", ", hold_until_stop: true");
  ASSERT_TRUE(committed(6));
  kill_and_reap(first);
  Process& second = resume();
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); }));
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 130) << second.out();
  EXPECT_EQ(cluster.checkpoints("job").size(), 7u);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Resume, WithAnotherNumberOfWorkersTheyAreToldOfTheChange) {
  Process& first = start("[]");
  ASSERT_EQ(first.wait(), 0) << first.out() << first.err();
  const std::string again = cluster.job(
      "again",
      fmt::format("command: [{}]\nscaling_config: {{num_workers: 3, resources_per_worker: {{CPU: "
                  "0}}}}\ntrain_loop_config: {{mode: epochs, epochs: {}}}\n"
                  "resume_from_checkpoint: {}/checkpoints/checkpoint_000012\n",
                  program("sdk_worker"), kEpochs + 1, cluster.run_dir("job")));
  Process& second = cluster.train_run({again});
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(contains(second.out(), "resized 2 to 3")) << second.out();
  EXPECT_FALSE(contains(first.out(), "resized")) << first.out();
}

TEST_F(Resume, CanRestoreSaysWhatResumeWouldGoOnWith) {
  const auto answer = [&](const std::string& run) {
    Process& process = cluster.train_run({"can-restore", run});
    const int code = process.wait().value_or(-1);
    return fmt::format("{}: {}{}", code, process.out(), process.err());
  };
  const std::string job = cluster.run_dir("job");
  Process& first = start("[6]");
  ASSERT_TRUE(committed(6));
  EXPECT_TRUE(contains(answer(job),
                       fmt::format("1: {} cannot be resumed: train-run {} on ", job, first.pid())))
      << answer(job);

  kill_and_reap(first);
  EXPECT_EQ(answer(job),
            "0: job can be resumed: the workers of attempt 0 if they are still running, otherwise "
            "attempt 1 "
            "from checkpoint_000006\n");
  go_on(6);
  ASSERT_EQ(resume().wait(), 0);
  EXPECT_EQ(answer(job), fmt::format("1: {} cannot be resumed: it has finished\n", job));
  EXPECT_TRUE(contains(answer("none"), "1: none cannot be resumed: no run 'none'"))
      << answer("none");
}

TEST_F(Resume, AChangedSpecHoldsForTheAttemptsToCome) {
  const std::string job = cluster.run_dir("job");
  const auto changed = [&]() -> Process& {
    return cluster.train_run({"resume", job, "--set", "train_loop_config.epochs=9", "--set",
                              "scaling_config.num_workers=1"});
  };
  Process& first = start("[6]");
  ASSERT_TRUE(committed(6));
  kill_and_reap(first);
  Process& refused = changed();
  EXPECT_EQ(refused.wait(), 73);
  EXPECT_TRUE(contains(refused.err(), "attempt 0 of job has not ended")) << refused.err();
  Process& second = resume();
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); }));
  second.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "stopping"); }));
  go_on(6);
  ASSERT_EQ(second.wait(), 130);

  Process& third = changed();

  EXPECT_EQ(third.wait(), 0) << third.out() << third.err();
  EXPECT_TRUE(contains(third.out() + third.err(),
                       "the spec was changed, starting with attempt 1: train_loop_config.epochs, "
                       "scaling_config.num_workers"))
      << third.out() << third.err();
  EXPECT_TRUE(contains(third.out(), "resized 2 to 1")) << third.out();
  EXPECT_EQ(cluster.checkpoints("job").back(), "checkpoint_000009");
  EXPECT_TRUE(contains(cluster.read(job + "/spec.resolved.yaml"), "epochs: 9"));
  std::vector<std::string> keys;
  for (const auto& event : cluster.journal("job"))
    if (text_of(event, "event") == "spec_changed") keys.push_back(text_of(event, "keys"));
  EXPECT_EQ(keys, std::vector<std::string>{
                      R"(["train_loop_config.epochs","scaling_config.num_workers"])"});
}

TEST_F(Resume, WhichRunItIsCannotChange) {
  ASSERT_EQ(cluster.run({cluster.job("job", "command: \"exit 3\"\n")}), 3);

  for (const std::string& change :
       {std::string("name=other"), "run_config.storage_path=" + cluster.path("elsewhere")}) {
    Process& other = cluster.train_run({"resume", cluster.run_dir("job"), "--set", change});
    EXPECT_EQ(other.wait(), 2);
    EXPECT_TRUE(contains(other.err(), "identify the run and cannot be changed")) << other.err();
  }
}

TEST_F(Resume, AFolderThatWasMovedBeginsNoOtherRun) {
  ASSERT_EQ(cluster.run({cluster.job("job", "command: \"exit 3\"\n")}), 3);
  const std::string moved = cluster.path("moved");
  std::filesystem::rename(cluster.run_dir("job"), moved);

  Process& resumed = cluster.train_run({"resume", moved});
  EXPECT_EQ(resumed.wait(), 2);
  EXPECT_EQ(resumed.err(),
            fmt::format("train-run: error: '{}' was moved or copied: its spec says that its run is "
                        "in '{}'\ntrain-run: move it back, or begin a new run with "
                        "resume_from_checkpoint set to one of its checkpoints\n",
                        moved, cluster.run_dir("job")));
  EXPECT_FALSE(std::filesystem::exists(cluster.run_dir("job")));
  Process& asked = cluster.train_run({"can-restore", moved});
  EXPECT_EQ(asked.wait(), 1);
  EXPECT_TRUE(contains(asked.out(), "was moved or copied")) << asked.out();
}

TEST_F(Resume, ASecondLauncherOfALivingRunIsRefused) {
  Process& first = start("[6]");
  ASSERT_TRUE(committed(6));
  Process& second = resume();
  EXPECT_NE(second.wait(), 0);
  EXPECT_TRUE(contains(second.err(), "is held by process " + std::to_string(first.pid())))
      << second.err();
  go_on(6);
  EXPECT_EQ(first.wait(), 0);
}

}  // namespace
}  // namespace train::e2e
