// Requested ends of a run: Ctrl-C, SIGTERM, `train-run stop`, a stop condition; and commands on a
// run: status, logs, resume.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string training(const Cluster& cluster, const std::string& config,
                     const std::string& run_config = "") {
  return cluster.job("job",
                     "command: [" + program("sdk_worker") +
                         "]\ntrain_loop_config: {mode: epochs, " + config +
                         "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                     run_config);
}

/// Return whether each of both ranks has reported so often.
bool has_reported(const Cluster& cluster, int times) {
  std::map<std::string, int> reports;
  for (const auto& line : cluster.metrics("job")) ++reports[text_of(line, "rank")];
  return reports.size() == 2 && reports["0"] >= times && reports["1"] >= times;
}

std::vector<std::int64_t> last_report_seqs(const Cluster& cluster) {
  std::map<std::string, std::int64_t> last;
  for (const auto& line : cluster.metrics("job"))
    last[text_of(line, "rank")] = line.at("report_seq").as_int64();
  std::vector<std::int64_t> report_seqs;
  for (const auto& [rank, report_seq] : last) report_seqs.push_back(report_seq);
  return report_seqs;
}

TEST(Stop, CtrlCStopsAllRanksAtOneReportAndKeepsACheckpoint) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {training(cluster, "epochs: 1000000, checkpoint_every: 0, ahead: 10, on_stop: true")});
  ASSERT_TRUE(wait_until([&] { return has_reported(cluster, 6); }));

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130);
  const std::vector<std::int64_t> report_seqs = last_report_seqs(cluster);
  ASSERT_EQ(report_seqs.size(), 2u);
  EXPECT_EQ(report_seqs[0], report_seqs[1]);
  EXPECT_EQ(cluster.checkpoints("job"), std::vector<std::string>{"checkpoint_000001"});
  EXPECT_TRUE(
      contains(cluster.read(cluster.run_dir("job") + "/checkpoints/checkpoint_000001/state.json"),
               "on_stop"));
  EXPECT_TRUE(contains(run.out(), cluster.run_dir("job") + "/checkpoints/checkpoint_000001"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "train-run resume")) << run.out();
  EXPECT_EQ(text_of(cluster.exit_json("job"), "outcome"), "interrupted");
  EXPECT_TRUE(cluster.workers().empty());
}

TEST(Stop, ASecondCtrlCKillsAtOnce) {
  Cluster cluster;
  const std::string ready = cluster.path("ready");
  Process& run = cluster.train_run(
      {cluster.job("job",
                   "command: [" + program("plain_worker") + ", ignore-term, touch, " + ready +
                       ", hang]\nscaling_config: {num_workers: 1}",
                   "  failure_config: {stop_grace: 1h}")});
  ASSERT_TRUE(wait_until([&] { return exists(ready); }));

  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(cluster.workers().empty());
}

class StopSignal : public ::testing::TestWithParam<int> {};

// SIGHUP means that the terminal is gone.
INSTANTIATE_TEST_SUITE_P(, StopSignal, ::testing::Values(SIGTERM, SIGHUP), [](const auto& info) {
  return info.param == SIGTERM ? "SIGTERM" : "SIGHUP";
});

TEST_P(StopSignal, CheckpointsAndAsksToBeQueuedAgain) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {training(cluster, "epochs: 1000000, checkpoint_every: 0, ahead: 10, on_stop: true")});
  ASSERT_TRUE(wait_until([&] { return has_reported(cluster, 6); }));

  run.signal(GetParam());

  EXPECT_EQ(run.wait(), 75);
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
  EXPECT_EQ(text_of(cluster.exit_json("job"), "outcome"), "preempted");
}

TEST(Stop, SlurmsWarningCheckpointsAndAsksForARequeueHoweverOftenItComes) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {training(cluster, "epochs: 1000000, checkpoint_every: 0, ahead: 10, on_stop: true")});
  ASSERT_TRUE(wait_until([&] { return has_reported(cluster, 6); }));

  for (int i = 0; i < 4; ++i) run.signal(SIGUSR1);

  EXPECT_EQ(run.wait(), 75);
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
}

/// Start two workers without the SDK that hang after `words`. Press Ctrl-C once both are ready.
Process& interrupt_two_that_hang(Cluster& cluster, const std::string& words,
                                 const std::string& stop_grace) {
  Process& run = cluster.train_run(
      {cluster.job("job",
                   "command: [" + program("plain_worker") + ", " + words +
                       ", print, ready, hang]\n"
                       "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                   "  failure_config: {stop_grace: " + stop_grace + "}")});
  EXPECT_TRUE(wait_until(
      [&] { return contains(run.out(), "0] ready") && contains(run.out(), "1] ready"); }));
  run.signal(SIGINT);
  return run;
}

TEST(Stop, WorkersWithoutTheSdkGetTermAndTheGrace) {
  Cluster cluster;

  Process& run = interrupt_two_that_hang(cluster, "on-term-exit, 0", "1h");

  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(contains(run.out(), "0] leaving") && contains(run.out(), "1] leaving")) << run.out();
  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

TEST(Stop, WorkersThatIgnoreTermAreKilledAfterTheGrace) {
  Cluster cluster;

  Process& run = interrupt_two_that_hang(cluster, "ignore-term", "100ms");

  EXPECT_EQ(run.wait(), 130);
  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

TEST(Stop, AStopConditionEndsTheRunWell) {
  Cluster cluster;
  Process& run =
      cluster.train_run({training(cluster, "epochs: 1000000, ahead: 10", "  stop: {epoch: 3}")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(text_of(cluster.exit_json("job"), "outcome"), "succeeded");
  EXPECT_TRUE(contains(run.out(), "epoch")) << run.out();
  EXPECT_FALSE(cluster.checkpoints("job").empty());
}

TEST(Stop, TheStopCommandStopsARunFromElsewhere) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {training(cluster, "epochs: 1000000, checkpoint_every: 0, ahead: 10, on_stop: true")});
  ASSERT_TRUE(wait_until([&] { return has_reported(cluster, 2); }));

  Process& stop = cluster.train_run({"stop", cluster.run_dir("job")});

  EXPECT_EQ(stop.wait(), 0);
  EXPECT_EQ(stop.out(), "asked job to checkpoint and stop\nstopped\n");
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(cluster.checkpoints("job").size(), 1u);
  EXPECT_EQ(cluster.run({"stop", cluster.run_dir("job")}), 1);
}

TEST(Stop, OfALauncherThatDiesMeanwhileTheStopCommandSaysSo) {
  Cluster cluster;
  Process& run =
      cluster.train_run({training(cluster, "epochs: 1000000, checkpoint_every: 0, ahead: 10")});
  ASSERT_TRUE(wait_until([&] { return has_reported(cluster, 2); }));
  run.signal(SIGSTOP);
  Process& stop = cluster.train_run({"stop", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(stop.out(), "asked job"); }));

  run.signal(SIGKILL);

  EXPECT_EQ(stop.wait(), 69) << stop.out();
  EXPECT_TRUE(contains(stop.err(), cluster.run_dir("job") + " was not stopped: ")) << stop.err();
}

TEST(Status, OfARunningAndOfAFinishedRun) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") + ", wait-for, " + go +
                              ", exit, 3]\nscaling_config: {num_workers: 1}")});
  ASSERT_TRUE(wait_until([&] {
    return contains(cluster.read(cluster.run_dir("job") + "/events.jsonl"),
                    "\"state\":\"running\"");
  }));

  Process& running =
      cluster.train_run({"status", "job", "--storage-path", cluster.storage(), "--output", "json"});
  ASSERT_EQ(running.wait(), 0);
  cluster.write("go", "");
  ASSERT_EQ(run.wait(), 3);
  Process& finished = cluster.train_run({"status", cluster.run_dir("job"), "--output", "json"});
  ASSERT_EQ(finished.wait(), 0);
  Process& text = cluster.train_run({"status", "job"});  // found in the registry of runs
  ASSERT_EQ(text.wait(), 0);

  const auto first = cluster.json_lines(running.out()).at(0);
  EXPECT_EQ(text_of(first, "run"), "job");
  EXPECT_EQ(text_of(first, "running"), "true");
  EXPECT_EQ(text_of(first, "state"), "running");
  EXPECT_EQ(text_of(first, "world_size"), "1");
  const auto second = cluster.json_lines(finished.out()).at(0);
  EXPECT_EQ(text_of(second, "running"), "false");
  EXPECT_EQ(text_of(second, "state"), "errored");
  EXPECT_EQ(text_of(second.at("exit").as_object(), "code"), "3");
  EXPECT_TRUE(contains(text.out(), "run:        job\nfolder:     " + cluster.run_dir("job") +
                                       "\nstate:      errored, exit code 3: rank 0 on "))
      << text.out();
}

TEST(Status, OfARunWhoseLossIsNotANumberIsValidJson) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({cluster.job("job", "command: \"true\"\n")}), 0);
  std::ofstream(cluster.run_dir("job") + "/metrics.jsonl", std::ios::app)
      << R"({"rank":0,"attempt":0,"report_seq":1,"time":"2026-11-21T09:38:00.123456Z",)"
      << R"("checkpoint":false,"metrics":{"loss":null,"step":3}})"
      << "\n";

  Process& status = cluster.train_run({"status", cluster.run_dir("job"), "--output", "json"});

  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), R"("loss":null)")) << status.out();
  EXPECT_TRUE(contains(status.out(), R"("step":3)")) << status.out();
}

TEST(Status, OfNoSuchRunSaysWhereItLooked) {
  Cluster cluster;
  Process& status = cluster.train_run({"status", "nothing", "--storage-path", cluster.storage()});

  EXPECT_EQ(status.wait(), 66);
  EXPECT_TRUE(contains(status.err(), cluster.storage())) << status.err();
}

TEST(Logs, OfAllRanksOfOneAndAsTheyGrow) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run({cluster.job(
      "job", "command: \"echo hello from $RANK; " + program("plain_worker") + " wait-for " + go +
                 "; echo bye from $RANK\"\n"
                 "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}")});
  ASSERT_TRUE(wait_until(
      [&] { return contains(run.out(), "hello from 0") && contains(run.out(), "hello from 1"); }));

  Process& followed = cluster.train_run({"logs", cluster.run_dir("job"), "--rank", "1", "-f"});
  ASSERT_TRUE(wait_until([&] { return contains(followed.out(), "hello from 1"); }));
  EXPECT_TRUE(followed.running());
  cluster.write("go", "");
  ASSERT_EQ(run.wait(), 0);
  Process& all = cluster.train_run({"logs", cluster.run_dir("job")});

  EXPECT_EQ(followed.wait(), 0);
  EXPECT_EQ(followed.out(), "hello from 1\nbye from 1\n");
  EXPECT_EQ(all.wait(), 0);
  EXPECT_EQ(all.out(), "[0] hello from 0\n[0] bye from 0\n[1] hello from 1\n[1] bye from 1\n");
}

// What a worker prints last is all that explains its death, and the next attempt begins soon.
TEST(Logs, ShowWhatAnAttemptPrintedJustBeforeTheNextBegan) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {cluster.job("job",
                   "command: \"echo hello; " + program("plain_worker") + " wait-for " + go +
                       "; [ $TRAINRUN_ATTEMPT != 0 ] || { echo dying >&2; exit 3; }\"\n"
                       "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}",
                   "  failure_config: {max_failures: 1}\n")});
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "hello"); })) << run.err();
  Process& followed = cluster.train_run({"logs", cluster.run_dir("job"), "-f"});
  Process& attached = cluster.train_run({"attach", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(followed.out(), "hello"); }));
  ASSERT_TRUE(wait_until([&] { return contains(attached.out(), "running"); })) << attached.out();
  cluster.write("go", "");
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  EXPECT_EQ(followed.wait(), 0);
  EXPECT_EQ(followed.out(), "[0] hello\n[0] dying\n[0] hello\n");
  EXPECT_EQ(attached.wait(), 0);
  EXPECT_TRUE(contains(attached.out(), "[0] dying\n")) << attached.out();
}

TEST(Status, IsNotHeldUpByAPipeInTheRunsFolder) {
  Cluster cluster;
  ASSERT_EQ(
      cluster.run({cluster.job("job", "command: ['true']\nscaling_config: {num_workers: 1}")}), 0);
  const std::string exit = cluster.run_dir("job") + "/exit.json";
  std::filesystem::remove(exit);
  ASSERT_EQ(::mkfifo(exit.c_str(), 0600), 0);

  EXPECT_TRUE(cluster.train_run({"status", cluster.run_dir("job")}).wait());
}

TEST(Attach, FollowsARunToItsEndAndEndsWithItsExitCode) {
  Cluster cluster;
  Process& run = start_waiting_worker(cluster, ", print, after, exit, '7'");

  Process& attached = cluster.train_run({"attach", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] {
    return contains(attached.out(), "metrics:") || contains(attached.out(), "checkpoint:");
  }));
  cluster.write("go", "");

  EXPECT_EQ(run.wait(), 7);
  EXPECT_EQ(attached.wait(), 7) << attached.out();
  EXPECT_TRUE(contains(attached.out(), "[0] after")) << attached.out();
  EXPECT_FALSE(contains(attached.out(), "before")) << attached.out();
}

TEST(Attach, SaysThatTheLauncherDied) {
  Cluster cluster;
  Process& run = start_waiting_worker(cluster);
  Process& attached = cluster.train_run({"attach", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(attached.out(), "checkpoint:"); }));

  run.signal(SIGKILL);

  EXPECT_EQ(attached.wait(), 69) << attached.out();
  Process& next = cluster.train_run({"resume", cluster.run_dir("job")});
  cluster.write("go", "");
  EXPECT_EQ(next.wait(), 0) << next.out();
}

TEST(Resume, AnInterruptedRunGoesOnFromItsCheckpoint) {
  Cluster cluster;
  Process& run = cluster.train_run({training(cluster, "epochs: 1000000, epochs_after_restore: 3")});
  ASSERT_TRUE(wait_until([&] { return cluster.checkpoints("job").size() >= 2; }));
  run.signal(SIGINT);
  ASSERT_EQ(run.wait(), 130);
  const std::vector<std::string> kept = cluster.checkpoints("job");
  const int epoch = std::stoi(kept.back().substr(kept.back().size() - 6)) -
                    1;  // one checkpoint per epoch, from number 1 on

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});

  EXPECT_EQ(resumed.wait(), 0);
  EXPECT_TRUE(contains(resumed.out(), "0] restored epoch " + std::to_string(epoch) + "\n"))
      << resumed.out();
  EXPECT_TRUE(contains(resumed.out(), "0] start_epoch " + std::to_string(epoch + 1) + "\n"))
      << resumed.out();
  EXPECT_EQ(cluster.checkpoints("job").size(), static_cast<std::size_t>(epoch + 4));
  std::vector<std::string> epochs, expected;
  for (int each = 0; each < epoch + 4; ++each) expected.push_back(std::to_string(each));
  for (const auto& line : cluster.metrics("job")) {
    if (text_of(line, "rank") == "0")
      epochs.push_back(text_of(line.at("metrics").as_object(), "epoch"));
  }
  EXPECT_EQ(epochs, expected);
}

TEST(Resume, AForcedLauncherTakesTheRunFromALivingOne) {
  Cluster cluster;
  Process& first = start_waiting_worker(cluster);

  Process& second = cluster.train_run({cluster.path("job.yaml"), "--force"});

  EXPECT_EQ(first.wait(), 73);
  EXPECT_TRUE(contains(first.out(), "continues without this train-run")) << first.out();
  EXPECT_FALSE(contains(first.out(), "train-run resume")) << first.out();
  EXPECT_FALSE(exists(cluster.run_dir("job") + "/exit.json"));
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "found 1 worker still running"); }));
  cluster.write("go", "");
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "0");
  EXPECT_TRUE(
      wait_until([&] { return cluster.processes().empty() && cluster.runtime_folders().empty(); }));
}

}  // namespace
}  // namespace train::e2e
