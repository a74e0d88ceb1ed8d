// Processes beside the workers validate committed checkpoints, and their results decide.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using Names = std::vector<std::string>;

class Validation : public ::testing::Test {
 protected:
  Process& start(const std::string& config, const std::string& validation = "{}",
                 const std::string& more = "") {
    return cluster.train_run({cluster.job(
        "job",
        fmt::format("command: [{}]\ntrain_loop_config: {{go: '{}', {}}}\n"
                    "scaling_config: {{resources_per_worker: {{CPU: 0}}}}\n",
                    program("validating_worker"), cluster.path("go"), config),
        fmt::format("  checkpoint_config:\n    num_to_keep: 1\n    checkpoint_score_attribute: "
                    "val_acc\n    validation: {}\n{}",
                    validation, more))});
  }
  void go_on(const std::string& what, int epoch) {
    cluster.write(fmt::format("go-{}-{}", what, epoch), "");
  }
  /// Return the process that validates now.
  std::optional<pid_t> validating() {
    const auto all = cluster.processes(program("validating_worker"));
    const auto workers = cluster.worker_pids();
    for (const Seen& seen : all)
      if (!workers.contains(seen.pid)) return seen.pid;
    return std::nullopt;
  }
  std::string log_of(int number, int attempt = 0) {
    return cluster.read(fmt::format("{}/attempts/{:03}/validation/checkpoint_{:06}.log",
                                    cluster.run_dir("job"), attempt, number));
  }
  boost::json::array listed() {
    Process& list =
        cluster.train_run({"checkpoint", "list", cluster.run_dir("job"), "--output", "json"});
    EXPECT_EQ(list.wait(), 0) << list.err();
    return boost::json::parse(list.out()).as_array();
  }
  void expect_end(Process& run, int code) {
    EXPECT_EQ(run.wait(), code) << run.out() << run.err();
    EXPECT_TRUE(nothing_left(cluster));
  }

  Cluster cluster;
};

TEST_F(Validation, WhatItFindsDecidesWhichCheckpointIsKept) {
  Process& run = start("accuracies: [0.5, 0.9, 0.7]");
  expect_end(run, 0);

  EXPECT_TRUE(contains(run.out(), "checkpoint_000002 validated: val_acc=0.9 world=1 (took "))
      << run.out();
  EXPECT_EQ(cluster.checkpoints("job"), (Names{"checkpoint_000002", "checkpoint_000003"}));
  const auto best = cluster.run_json("job").at("best_checkpoint").as_object();
  EXPECT_EQ(text_of(best, "name"), "checkpoint_000002");
  EXPECT_EQ(best.at("score").as_double(), 0.9);
  const auto rows = listed();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("validation").as_string(), "validated");
  EXPECT_EQ(rows[0].at("best").as_bool(), true);
  EXPECT_EQ(rows[0].at("metrics").at("val_acc").as_double(), 0.9);  // replaces the reported 0.0
  EXPECT_EQ(rows[1].at("score").as_double(), 0.7);
  EXPECT_EQ(log_of(2), "validating epoch 1 of job\n");
}

TEST_F(Validation, TheTrainingGoesOnMeanwhileAndTheRunWaitsForItAtTheEnd) {
  Process& run = start("accuracies: [0.5, 0.9, 0.7], hold_validation: [0]");
  ASSERT_TRUE(wait_until([&] {
    return contains(run.out(), "the training has ended; waiting for the validation of 3");
  })) << run.out();
  EXPECT_TRUE(cluster.worker_pids().empty());
  EXPECT_TRUE(validating());
  EXPECT_EQ(cluster.checkpoints("job").size(), 3u);  // none was removed before its validation

  go_on("validate", 0);

  expect_end(run, 0);
  EXPECT_EQ(cluster.checkpoints("job"), (Names{"checkpoint_000002", "checkpoint_000003"}));
}

TEST_F(Validation, OneThatFailsIsNamedAndHarmsNothingElse) {
  Process& run =
      start("accuracies: [0.9, 0.5, 0.7, 0.6], throw_at: [0], crash_at: [1], hang_at: [2]",
            "{timeout: 2s}");
  expect_end(run, 0);

  EXPECT_TRUE(contains(run.out(),
                       "checkpoint_000001 was not validated: it exited with 1: the "
                       "labels are gone (its output: "))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "checkpoint_000002 was not validated: it was killed by SIGSEGV"));
  EXPECT_TRUE(
      contains(run.out(), "checkpoint_000003 was not validated: it took longer than 2.0 s"));
  EXPECT_TRUE(contains(run.out(), "checkpoint_000004 validated: val_acc=0.6"));
  EXPECT_TRUE(contains(log_of(1), "the validation failed: std::runtime_error: the labels are gone"))
      << log_of(1);
  EXPECT_EQ(cluster.checkpoints("job"), (Names{"checkpoint_000004"}));
}

TEST_F(Validation, GoesOnWhenItsLauncherDies) {
  Process& first = start("accuracies: [0.5, 0.9], hold_validation: [0], hold_training: [1]");
  ASSERT_TRUE(wait_until([&] { return validating().has_value(); })) << first.out() << first.err();
  const pid_t process = *validating();
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); })) << second.err();
  EXPECT_EQ(validating(), process);
  go_on("train", 1);
  // Now kill the second launcher while only the validation is left.
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "the training has ended"); }))
      << second.out() << second.err();
  EXPECT_EQ(validating(), process);
  second.signal(SIGKILL);
  ASSERT_EQ(second.wait(), 137);
  go_on("validate", 0);
  ASSERT_TRUE(wait_until([&] { return validating() != process; }));  // it ends, and nobody listens
  Process& third = cluster.train_run({"resume", cluster.run_dir("job")});

  expect_end(third, 0);
  EXPECT_TRUE(contains(third.out(), "checkpoint_000001 validated: val_acc=0.5")) << third.out();
  EXPECT_TRUE(contains(third.out(), "checkpoint_000002 validated: val_acc=0.9")) << third.out();
  EXPECT_EQ(cluster.checkpoints("job"), (Names{"checkpoint_000002"}));
  int validated = 0, attempts = 0;
  for (const auto& event : cluster.journal("job")) {
    validated += text_of(event, "event") == "checkpoint_validated" ? 1 : 0;
    attempts += text_of(event, "event") == "attempt_started" ? 1 : 0;
  }
  EXPECT_EQ(validated, 2);
  EXPECT_EQ(attempts, 1);
}

TEST_F(Validation, BeginsAgainWithTheNextAttempt) {
  Process& run =
      start("accuracies: [0.5, 0.9], hold_validation: [0], hold_training: [1], die_at: [1]", "{}",
            "  failure_config: {max_failures: 1}\n");
  ASSERT_TRUE(wait_until([&] { return validating().has_value(); })) << run.out() << run.err();
  go_on("train", 1);
  ASSERT_TRUE(wait_until([&] {
    return contains(run.out(), "attempt 1: 1 worker") && validating().has_value();
  })) << run.out();
  go_on("validate", 0);

  expect_end(run, 0);
  EXPECT_TRUE(contains(run.out(), "checkpoint_000001 validated")) << run.out();
  EXPECT_EQ(log_of(1, /*attempt=*/0), "");
  EXPECT_EQ(log_of(1, /*attempt=*/1), "validating epoch 0 of job\n");
}

TEST_F(Validation, CtrlCEndsItAndALaterLauncherCatchesUp) {
  Process& first = start("accuracies: [0.5, 0.9], hold_validation: [0]");
  ASSERT_TRUE(wait_until([&] { return contains(first.out(), "the training has ended"); }));
  first.signal(SIGINT);
  expect_end(first, 130);
  go_on("validate", 0);

  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});

  expect_end(second, 0);
  EXPECT_TRUE(contains(second.out(), "checkpoint_000001 validated")) << second.out();
  EXPECT_TRUE(contains(second.out(), "checkpoint_000002 validated")) << second.out();
}

TEST_F(Validation, AnyProgramMayDoIt) {
  const std::string script = cluster.write("validate.sh",
                                           "read -r state < $TRAINRUN_CHECKPOINT_DIR/state.json\n"
                                           "echo \"got $state, rank ${RANK:-none}\"\n"
                                           "echo '{\"val\": {\"acc\": 0.25}, \"lost\": NaN}' > "
                                           "$TRAINRUN_RESULT_FILE\n");
  Process& run = start("accuracies: [0.5, 0.9]", "{command: [sh, " + script + "], every: 2}");
  expect_end(run, 0);

  EXPECT_TRUE(contains(run.out(), "checkpoint_000002 validated: val.acc=0.25 lost=nan (took "))
      << run.out();
  EXPECT_FALSE(contains(run.out(), "checkpoint_000001 validated")) << run.out();
  EXPECT_EQ(log_of(2), "got {\"epoch\":1}, rank none\n");
}

TEST_F(Validation, AProgramThatLeavesNoResultIsToldWhere) {
  Process& run = start("accuracies: [0.5]", "{command: ['true']}");
  expect_end(run, 0);
  EXPECT_TRUE(contains(run.out(),
                       "checkpoint_000001 was not validated: it exited with 0, and wrote "
                       "nothing to $TRAINRUN_RESULT_FILE"))
      << run.out();
}

TEST_F(Validation, AWorkerSeesTheStateOfAllCheckpoints) {
  Process& run = start("accuracies: [0.5, 0.9], hold_validation: [0, 1], list: true", "{every: 2}");
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "2 pending"); })) << run.out();
  EXPECT_FALSE(contains(run.out(), "2 validated")) << run.out();
  go_on("validate", 1);

  expect_end(run, 0);
  const std::string printed =
      cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log");
  EXPECT_TRUE(contains(printed, "2 pending epoch=1 val_acc=0")) << printed;
  EXPECT_TRUE(contains(printed, "2 validated epoch=1 val_acc=0.9")) << printed;
}

}  // namespace
}  // namespace train::e2e
