// max_failures: what a run does and says when workers die.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string training(const Cluster& cluster, int workers, const std::string& config,
                     const std::string& run_config) {
  return cluster.job("job",
                     "command: [" + program("sdk_worker") + "]\ntrain_loop_config: {" + config +
                         "}\nscaling_config: {num_workers: " + std::to_string(workers) +
                         ", resources_per_worker: {CPU: 0}}",
                     run_config);
}

/// Return "attempt/epoch" of rank 0's reports, in the order of the log.
std::vector<std::string> epochs_of_rank_zero(const Cluster& cluster) {
  std::vector<std::string> epochs;
  for (const auto& line : cluster.metrics("job")) {
    if (text_of(line, "rank") == "0")
      epochs.push_back(text_of(line, "attempt") + "/" +
                       text_of(line.at("metrics").as_object(), "epoch"));
  }
  return epochs;
}

int restarts_in_journal(const Cluster& cluster) {
  int restarts = 0;
  for (const auto& event : cluster.journal("job"))
    restarts += text_of(event, "trigger") == "restart_decided";
  return restarts;
}

TEST(Restart, GoesOnFromTheNewestCommittedCheckpoint) {
  Cluster cluster;
  // Rank 1 kills itself in epoch 3, once the checkpoint of epoch 2 is committed.
  const std::string committed =
      cluster.run_dir("job") + "/checkpoints/checkpoint_000003/.manifest.json";

  Process& run = cluster.train_run({training(
      cluster, 2,
      "mode: epochs, epochs: 5, die_rank: 1, die_epoch: 3, die_after_file: '" + committed + "'",
      "  failure_config: {max_failures: 1}")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "0] restored epoch 2\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "1] restored epoch 2\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "0] start_epoch 3\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "; lost ")) << run.out();  // the time since, and 0 or 1 reports
  EXPECT_EQ(restarts_in_journal(cluster), 1);
  EXPECT_EQ(cluster.checkpoints("job").size(), 5u);
  // Repeated steps are logged as repeated: nothing is lost, and no line is there twice.
  std::vector<std::string> epochs = epochs_of_rank_zero(cluster);
  EXPECT_EQ(std::vector<std::string>(epochs.begin(), epochs.begin() + 3),
            (std::vector<std::string>{"0/0", "0/1", "0/2"}));
  EXPECT_EQ(std::vector<std::string>(epochs.end() - 2, epochs.end()),
            (std::vector<std::string>{"1/3", "1/4"}));
}

TEST(Restart, TheWorkersSeeTheCountOfRestarts) {
  Cluster cluster;
  const std::string script =
      "echo count $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; [ "
      "$TORCHELASTIC_RESTART_COUNT = 2 ] || exit 9";

  Process& run = cluster.train_run(
      {cluster.job("job", "command: \"" + script + "\"\nscaling_config: {num_workers: 1}",
                   "  failure_config: {max_failures: 2, backoff: {initial: 10ms, max: 10ms}}")});

  EXPECT_EQ(run.wait(), 0);
  for (const char* line : {"count 0 of 2", "count 1 of 2", "count 2 of 2"})
    EXPECT_TRUE(contains(run.out(), line)) << line << "\n" << run.out();
}

TEST(Restart, GivesUpWithTheLastCauseWhenNoFailuresAreLeft) {
  Cluster cluster;

  Process& run = cluster.train_run({cluster.job(
      "job",
      "command: \"exit $((9 + TORCHELASTIC_RESTART_COUNT))\"\nscaling_config: {num_workers: 1}",
      "  failure_config: {max_failures: 2, backoff: {initial: 10ms, max: 10ms}}")});

  EXPECT_EQ(run.wait(), 11);
  EXPECT_EQ(restarts_in_journal(cluster), 2);
  EXPECT_EQ(text_of(cluster.exit_json("job"), "attempt"), "2");
  EXPECT_EQ(text_of(cluster.exit_json("job"), "exit_code"), "11");
}

TEST(Restart, MinusOneIsWithoutLimit) {
  Cluster cluster;
  // Given a program that never reports: nobody knows whether its deaths are at the same point.
  Process& run = cluster.train_run(
      {cluster.job("job",
                   "command: \"[ $TORCHELASTIC_RESTART_COUNT = 5 ] || exit 9\"\nscaling_config: "
                   "{num_workers: 1}",
                   "  failure_config: {max_failures: -1, backoff: {initial: 10ms, max: 10ms}}")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(restarts_in_journal(cluster), 5);
}

TEST(Restart, ACrashLoopEndsEarlyWhateverTheBudget) {
  Cluster cluster;
  Process& run = cluster.train_run({training(
      cluster, 2,
      "mode: epochs, epochs: 5, checkpoint_every: 0, ahead: 1, die_rank: 1, die_epoch: 3, "
      "die_attempts: 99",
      "  failure_config: {max_failures: -1, backoff: {initial: 10ms, max: 10ms}}")});

  EXPECT_EQ(run.wait(), 137);
  EXPECT_EQ(restarts_in_journal(cluster), 2);
  EXPECT_TRUE(contains(run.out(),
                       "rank 1 died after its report 3 3 times in a row, with no newer checkpoint"))
      << run.out();
}

TEST(Restart, ACrashLoopThatGetsFurtherThanItsCheckpointIsNone) {
  Cluster cluster;
  // Given a worker that dies at the same report of each attempt, with a new checkpoint in between.
  Process& run = cluster.train_run(
      {training(cluster, 1, "mode: epochs, epochs: 8, die_each_attempts: 5",
                "  failure_config: {max_failures: -1, backoff: {initial: 10ms, max: 10ms}}")});

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(restarts_in_journal(cluster), 5);
}

TEST(Restart, ANewCheckpointRefillsTheBudget) {
  Cluster cluster;
  // Given one allowed failure, and a worker that dies in each of its first three attempts after a
  // new checkpoint.
  const std::string job =
      training(cluster, 1, "mode: epochs, epochs: 4, die_each_attempts: 3",
               "  failure_config: {max_failures: 1, backoff: {initial: 10ms, max: 10ms}}");

  EXPECT_EQ(cluster.run({job}), 0);

  EXPECT_EQ(restarts_in_journal(cluster), 3);
}

TEST(Restart, TheErrorThatUserCodeThrewIsTheCause) {
  Cluster cluster;

  Process& run = cluster.train_run({training(cluster, 2, "mode: fail, fail_rank: 1", "")});

  EXPECT_EQ(run.wait(), 1);
  const auto exit = cluster.exit_json("job");
  EXPECT_EQ(text_of(exit, "root_rank"), "1");
  EXPECT_TRUE(
      contains(text_of(exit, "cause"), "failed with std::runtime_error: the learning rate is 0"))
      << text_of(exit, "cause");
  EXPECT_EQ(text_of(exit, "how_known"),
            "the error that the worker reported before it exited with code 1");
  EXPECT_TRUE(contains(run.out(), "failed with std::runtime_error: the learning rate is 0"))
      << run.out();
}

TEST(Restart, TheErrorFileOfPythonsRecordIsTheCause) {
  Cluster cluster;
  const std::string script = cluster.write("train.py", R"(import json, os, sys, time
message = {"message": "ValueError: batch size 7 does not divide 64",
           "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  train.py, line 3\nValueError: batch size 7 does not divide 64\n",
                         "timestamp": str(int(time.time()))}}
json.dump({"message": message}, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
sys.exit(1)
)");

  Process& run = cluster.train_run(
      {cluster.job("job", "command: [python3, " + script + "]\nscaling_config: {num_workers: 1}")});

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"),
                       "ValueError: batch size 7 does not divide 64"))
      << run.out();
}

/// A text beyond a journal record's limit of 1 MiB of UTF-8 once stopped all later records.
TEST(Restart, AnErrorTextOfAnyLengthAndBytesStopsNoJournal) {
  Cluster cluster;
  Process& run = cluster.train_run({cluster.job(
      "job", "command: [" + program("sdk_worker") +
                 "]\ntrain_loop_config: {mode: fail, more_bytes: 1200000}\n"
                 "scaling_config: {num_workers: 1, resources_per_worker: {CPU: 0}}\n")});

  EXPECT_EQ(run.wait(), 1);
  EXPECT_FALSE(contains(run.out() + run.err(), "journal")) << run.out().substr(0, 10'000);
  std::vector<std::string> events;
  for (const auto& event : cluster.journal("job")) events.push_back(text_of(event, "event"));
  EXPECT_EQ(std::count(events.begin(), events.end(), "attempt_ended"), 1);
  EXPECT_EQ(events.back(), "run_ended");
  EXPECT_LT(text_of(cluster.exit_json("job"), "cause").size(), 10'000u);
  EXPECT_EQ(cluster.run({"can-restore", cluster.run_dir("job")}), 0);
}

}  // namespace
}  // namespace train::e2e
