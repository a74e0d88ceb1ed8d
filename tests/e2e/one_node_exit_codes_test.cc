// Tests the table of exit codes (design.md §8, users-ask.md §3.1) end to end, with what exit.json
// says of each.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <chrono>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Return a job of `workers` plain workers that do what `words` (a YAML list without brackets) say.
std::string plain_job(const Cluster& cluster, const std::string& words, int workers = 1) {
  return cluster.job("job", "command: [" + program("plain_worker") + ", " + words +
                                "]\nscaling_config: {num_workers: " + std::to_string(workers) +
                                ", resources_per_worker: {CPU: 0}}");
}

TEST(ExitCodes, ZeroWhenAllWorkersReturnZero) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({plain_job(cluster, "print, hello", 2)}), 0);

  const auto exit = cluster.exit_json("job");
  EXPECT_EQ(text_of(exit, "code"), "0");
  EXPECT_EQ(text_of(exit, "outcome"), "succeeded");
  EXPECT_EQ(text_of(exit, "cause"), "null");
}

TEST(ExitCodes, TheWorkersOwnCode) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({plain_job(cluster, "complain, out of luck, exit, 7")}), 7);

  const auto exit = cluster.exit_json("job");
  EXPECT_EQ(text_of(exit, "code"), "7");
  EXPECT_EQ(text_of(exit, "outcome"), "failed");
  EXPECT_EQ(text_of(exit, "root_rank"), "0");
  EXPECT_EQ(text_of(exit, "exit_code"), "7");
  EXPECT_EQ(text_of(exit, "signal"), "null");
  EXPECT_EQ(text_of(exit, "how_known"), "its wait status");
  EXPECT_TRUE(contains(text_of(exit, "cause"), "exited with code 7")) << text_of(exit, "cause");
}

TEST(ExitCodes, AnUnusualCodeBecomesOneWithTheTrueOneInExitJson) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({plain_job(cluster, "exit, 200")}), 1);

  EXPECT_EQ(text_of(cluster.exit_json("job"), "code"), "1");
  EXPECT_EQ(text_of(cluster.exit_json("job"), "exit_code"), "200");
}

TEST(ExitCodes, ASegmentationFaultIs139) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({plain_job(cluster, "segfault")}), 139);

  const auto exit = cluster.exit_json("job");
  EXPECT_EQ(text_of(exit, "signal"), "SIGSEGV");
  EXPECT_EQ(text_of(exit, "exit_code"), "null");
}

TEST(ExitCodes, AKillIs137) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({plain_job(cluster, "signal, 9")}), 137);

  EXPECT_EQ(text_of(cluster.exit_json("job"), "signal"), "SIGKILL");
  EXPECT_EQ(text_of(cluster.exit_json("job"), "how_known"),
            "its wait status; trainrun did not send the signal");
}

TEST(ExitCodes, ACommandThatIsNotThereIs127) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({cluster.job(
                "job", "command: [./no-such-program]\nscaling_config: {num_workers: 1}")}),
            127);

  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"),
                       "the command './no-such-program' is not found"))
      << text_of(cluster.exit_json("job"), "cause");
}

TEST(ExitCodes, ACommandThatIsNotExecutableIs126) {
  Cluster cluster;
  ::chmod(cluster.write("data.txt", "not a program\n").c_str(), 0644);

  EXPECT_EQ(
      cluster.run({cluster.job("job", "command: [./data.txt]\nscaling_config: {num_workers: 1}")}),
      126);
}

// A failed TRAIN_CHECK or an uncaught exception aborts likewise; 134 would mean a rank's SIGABRT.
TEST(ExitCodes, ABugOfOursIs70) {
  Cluster cluster;
  Process& run =
      cluster.train_run({plain_job(cluster, "touch, " + cluster.path("started") + ", hang")});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("started")); }));

  run.signal(SIGABRT);

  EXPECT_EQ(run.wait(), 70);
}

TEST(ExitCodes, ABadSpecIs78) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({cluster.write("bad.yaml", "comand: [true]\n")}), 78);
}

TEST(ExitCodes, WrongUsageIs2) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({"run"}), 2);
  EXPECT_EQ(cluster.run({"run", "job.yaml", "--no-such-option"}), 2);
}

TEST(ExitCodes, AFinishedRunOfTheSameNameIsRefused) {
  Cluster cluster;
  const std::string job = plain_job(cluster, "exit, 0");
  ASSERT_EQ(cluster.run({job}), 0);
  const std::string before = cluster.read(cluster.run_dir("job") + "/exit.json");

  Process& again = cluster.train_run({job});

  EXPECT_EQ(again.wait(), 73);
  EXPECT_TRUE(contains(again.err(), "finished")) << again.err();
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/exit.json"), before);
  EXPECT_TRUE(
      wait_until([&] { return cluster.processes().empty() && cluster.runtime_folders().empty(); }));
}

TEST(ExitCodes, ASecondLauncherOfARunIsRefusedAndNamesTheHolder) {
  Cluster cluster;
  const std::string job = plain_job(cluster, "touch, " + cluster.path("started") + ", hang");
  Process& first = cluster.train_run({job});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("started")); }));

  Process& second = cluster.train_run({job});

  EXPECT_EQ(second.wait(), 73);
  EXPECT_TRUE(contains(second.err(), std::to_string(first.pid()))) << second.err();
  EXPECT_TRUE(first.running());
}

TEST(ExitCodes, TheFirstDeathIsTheCauseAndTheOthersAreCounted) {
  Cluster cluster;
  Process& run = cluster.train_run({plain_job(cluster, "print, giving up, hang", 4)});
  ASSERT_TRUE(wait_until([&] {
    const std::string out = run.out();
    for (int rank = 0; rank < 4; ++rank)
      if (!contains(out, " " + std::to_string(rank) + "] giving up\n")) return false;
    return true;
  }));

  // Rank 2 dies, and the others because of it, before the launcher hears of any death.
  run.signal(SIGSTOP);
  for (const int rank : {2, 0, 1, 3}) {
    const pid_t pid = cluster.worker(rank).value_or(-1);
    ASSERT_GT(pid, 0);
    send_signal(pid, rank == 2 ? SIGABRT : SIGTERM);
    ASSERT_TRUE(wait_until([&] { return !exists("/proc/" + std::to_string(pid)); }));
  }
  run.signal(SIGCONT);

  EXPECT_EQ(run.wait(), 134);
  const auto exit = cluster.exit_json("job");
  EXPECT_EQ(text_of(exit, "root_rank"), "2");
  EXPECT_EQ(text_of(exit, "signal"), "SIGABRT");
  EXPECT_EQ(text_of(exit, "collateral"), "3");
  EXPECT_EQ(text_of(exit, "attempt"), "0");
  EXPECT_TRUE(contains(run.out(), "3 other workers ended because of it")) << run.out();
  EXPECT_TRUE(contains(run.out(), "    | giving up")) << run.out();
}

TEST(ExitCodes, ARequestThatCanNeverFitFailsAtOnceAndSaysWhy) {
  Cluster cluster;

  Process& run = cluster.train_run({cluster.job(
      "job",
      "command: ['true']\nscaling_config: {num_workers: 1, resources_per_worker: {CPU: 100000}}")});

  EXPECT_EQ(run.wait(), 69);
  EXPECT_TRUE(contains(run.out() + run.err(), "100000")) << run.out() << run.err();
  EXPECT_TRUE(
      wait_until([&] { return cluster.processes().empty() && cluster.runtime_folders().empty(); }));
}

TEST(ExitCodes, ATraindThatCannotStartIsSaidWithItsReason) {
  Cluster cluster;
  const std::string script = cluster.write("traind",
                                           "#!/bin/sh\necho 'traind: error: the disk is full' >&2\n"
                                           "echo 'traind: make room' >&2\nexit 74\n");
  ::chmod(script.c_str(), 0700);
  Process& run = cluster.train_run({cluster.job("job", "command: [echo, hello]")},
                                   {.env = {{"TRAINRUN_TRAIND", script}}, .prefix = {}, .cwd = ""});

  EXPECT_EQ(run.wait(), 69) << run.out() << run.err();
  const std::string said = run.out() + run.err();
  EXPECT_TRUE(contains(said, "the traind of this run cannot start: the disk is full")) << said;
  EXPECT_TRUE(contains(said, "make room")) << said;
  EXPECT_TRUE(nothing_left(cluster));
}

}  // namespace
}  // namespace train::e2e
