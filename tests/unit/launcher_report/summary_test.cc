// Compares the end of a run with tests/golden/report/, byte by byte. UPDATE_GOLDEN=1 rewrites the
// files.
#include "launcher/report/summary.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/fakes/golden.h"

namespace train {
namespace {

constexpr std::int64_t kWall = 1'795'254'000'000'123;
const std::chrono::system_clock::time_point kBegun{std::chrono::microseconds(kWall)};

void expect_golden(const std::string& name, const std::string& text) {
  fakes::expect_golden(TRAIN_SOURCE_DIR "/tests/golden/report/" + name, text);
}

void expect_all_golden(const std::string& name, const RunSummary& summary) {
  expect_golden(name + ".txt", summary_text(summary, {}));
  expect_golden(name + ".exit.json", exit_json(summary));
  expect_golden(name + ".run.json", run_json(summary));
}

CheckpointSummary checkpoint(int number, std::optional<double> score) {
  const std::string name = "checkpoint_00000" + std::to_string(number);
  return {.name = name,
          .path = "/runs/vit/checkpoints/" + name,
          .score_metric = score ? "val_acc" : "",
          .score = score};
}

RunSummary run(Outcome outcome) {
  return {
      .run = "vit",
      .path = "/runs/vit",
      .logs = "/runs/vit/attempts/000/ranks",
      .outcome = outcome,
      .world_size = 4,
      .nnodes = 2,
      .begun = kBegun,
      .ended = kBegun + milliseconds(65'250),
      .duration = milliseconds(65'250),
      .attempts =
          {{.attempt = 0, .world_size = 4, .nnodes = 2, .begun = kBegun, .duration = seconds(65)}},
      .metrics = {{"epoch", std::int64_t{3}}, {"loss", 0.12345678}, {"val_acc", 0.9712}}};
}

WorkerFailure segfault() {
  return {.kind = EndKind::Killed,
          .rank = 3,
          .node = "node-b",
          .attempt = 1,
          .end = {.signaled = true,
                  .status = SIGSEGV,
                  .core_dumped = true,
                  .wall_us = kWall,
                  .last_lines = {"epoch 3", "about to\x1b[2J read"}}};
}

WorkerFailure thrown() {
  return {.kind = EndKind::Exited,
          .rank = 1,
          .node = "node-a",
          .attempt = 0,
          .end = {.status = 1,
                  .wall_us = kWall,
                  .error = UserError{"no such column: label", "std::runtime_error",
                                     "#0 load_batch() at vit.cc:42\n#1 main at vit.cc:99"}}};
}

TEST(Summary, Succeeded) {
  RunSummary summary = run(Outcome::Succeeded);
  summary.best = checkpoint(2, 0.98);
  summary.latest = checkpoint(3, 0.9712);
  summary.results = {R"({"accuracy":0.97})", "", "3", ""};
  summary.time[TimeUse::Step] = seconds(200);
  summary.time[TimeUse::Data] = seconds(40);
  summary.time[TimeUse::Checkpoint] = seconds(20);
  summary.attempts[0].time = summary.time;
  expect_all_golden("succeeded", summary);
}

TEST(Summary, StoppedByARule) {
  RunSummary summary = run(Outcome::Succeeded);
  summary.reason = "val_acc is 0.9712, and stop asks for 0.9";
  summary.best = summary.latest = checkpoint(3, std::nullopt);
  summary.data = DataVerdict{.share = 0.625,
                             .rank = 3,
                             .dataset = "train",
                             .operation = "map normalize",
                             .rows_per_s = 41'234.5};
  summary.ingest = {{"train", 2, 0, 1}, {"valid", 1, 0, 0}};
  summary.warnings = {"stop names the metric \"f1\", which rank 0 never reported"};
  expect_all_golden("stopped_by_rule", summary);
}

TEST(Summary, FailedBySignalAfterARestart) {
  RunSummary summary = run(Outcome::Failed);
  summary.logs = "/runs/vit/attempts/001/ranks/0003";
  summary.attempts[0].cause = "rank 1 on node-a exited with code 7";
  summary.attempts[0].lost = milliseconds(12'500);
  summary.attempts[0].redone = 4;
  summary.attempts[0].time[TimeUse::Lost] = milliseconds(50'500);
  summary.attempts[0].time[TimeUse::Step] = milliseconds(209'500);
  summary.time = summary.attempts[0].time;
  summary.time[TimeUse::Down] = seconds(3);
  summary.attempts.push_back(
      {.attempt = 1,
       .world_size = 4,
       .nnodes = 2,
       .begun = kBegun,
       .duration = milliseconds(250),
       .cause = "rank 3 on node-b was killed by SIGSEGV (segmentation fault), core dumped",
       .redone = 1,
       .lost = milliseconds(250)});
  summary.root = root_cause_of(segfault(), 3);
  summary.latest = checkpoint(3, std::nullopt);
  summary.lost_steps = 12;
  expect_all_golden("failed_by_signal", summary);
}

TEST(Summary, FailedByAnErrorOfUserCode) {
  RunSummary summary = run(Outcome::Failed);
  summary.metrics.clear();
  summary.root = root_cause_of(thrown(), 1);
  summary.attempts[0].cause = summary.root->text.cause;
  expect_all_golden("failed_by_error", summary);
}

TEST(Summary, WhatTheSdkPrintedOfTheErrorIsNotShownAgain) {
  WorkerFailure failure = thrown();
  failure.end.last_lines = {
      "epoch 3",
      "trainrun: rank 1: the training loop threw std::runtime_error: no such column: label"};
  RunSummary summary = run(Outcome::Failed);
  summary.root = root_cause_of(failure, 0);
  const std::string text = summary_text(summary, {});
  EXPECT_EQ(text.find("the training loop threw"), std::string::npos) << text;
  EXPECT_NE(text.find("the last line of rank 1"), std::string::npos) << text;

  failure.end.last_lines.erase(failure.end.last_lines.begin());
  summary.root = root_cause_of(failure, 0);
  EXPECT_NE(summary_text(summary, {}).find("rank 1 wrote nothing else"), std::string::npos);
}

TEST(Summary, FailedByALostNode) {
  RunSummary summary = run(Outcome::Failed);
  summary.reason = "no restart left: 2 of 2 used (failure_config.max_failures)";
  summary.root = root_cause_of_lost_node("node-b", {3, 2, 7}, "no heartbeat for 10 s", 2);
  expect_all_golden("failed_by_lost_node", summary);
}

TEST(Summary, Interrupted) {
  RunSummary summary = run(Outcome::Interrupted);
  summary.reason = "Ctrl-C";
  summary.latest = checkpoint(3, std::nullopt);
  summary.resume_command = "train-run resume /runs/vit";
  expect_all_golden("interrupted", summary);
}

TEST(Summary, Preempted) {
  RunSummary summary = run(Outcome::Preempted);
  summary.reason = "SIGTERM";
  summary.resume_command = "train-run resume /runs/vit";
  expect_all_golden("preempted", summary);
}

TEST(Summary, Refused) {
  RunSummary summary{.run = "vit", .outcome = Outcome::Refused, .begun = kBegun, .ended = kBegun};
  summary.error = Error{Errc::Unavailable, "no node answers at gpu-1:7070: connection refused",
                        "start traind there"};
  expect_all_golden("refused", summary);
}

TEST(Summary, Replaced) {
  RunSummary summary = run(Outcome::Replaced);
  summary.error =
      Error{Errc::Fenced, "another train-run has it", "follow it with train-run attach /runs/vit"};
  expect_all_golden("replaced", summary);
}

TEST(Summary, FilesOfAnAttemptAndARank) {
  expect_golden("cause_signal.json", cause_json(root_cause_of(segfault(), 3), 1));
  expect_golden("cause_lost_node.json",
                cause_json(root_cause_of_lost_node("node-b", {2}, "no heartbeat for 10 s", 1), 0));
  expect_golden("error_signal.json", error_json(segfault()));
  expect_golden("error_thrown.json", error_json(thrown()));
}

// Tests the function that all golden tests use.
TEST(Golden, AFileThatDiffersOrIsWrittenAnewIsNoPass) {
  static std::string path;  // EXPECT_NONFATAL_FAILURE sees no locals
  path = std::filesystem::temp_directory_path() / ("golden." + std::to_string(::getpid()));
  const char* update = std::getenv("UPDATE_GOLDEN");
  const std::string before = update == nullptr ? "" : update;
  ::unsetenv("UPDATE_GOLDEN");
  EXPECT_NONFATAL_FAILURE(fakes::expect_golden(path, "found"), "differs");
  ::setenv("UPDATE_GOLDEN", "1", 1);
  EXPECT_NONFATAL_FAILURE(fakes::expect_golden(path, "found"), "was written anew");
  ::unsetenv("UPDATE_GOLDEN");
  fakes::expect_golden(path, "found");
  if (!before.empty()) ::setenv("UPDATE_GOLDEN", before.c_str(), 1);
  std::filesystem::remove(path);
}

TEST(Summary, EndEventIsOneLine) {
  const std::string event = end_event(run(Outcome::Succeeded));
  EXPECT_EQ(event.find('\n'), event.size() - 1);
  EXPECT_EQ(event.substr(0, 71),
            R"({"event":"end","time":"2026-11-21T09:41:05.250123Z","code":0,"outcome":)");
}

TEST(IngestText, SaysHowManyServeWhileItRuns) {
  EXPECT_EQ(ingest_text({"train", 1, 1, 0}, true), "1 ingest worker for train");
  EXPECT_EQ(ingest_text({"train", 3, 1, 0}, true), "3 ingest workers for train (1 serves)");
  EXPECT_EQ(ingest_text({"train", 3, 2, 1}, true), "3 ingest workers for train (2 serve), 1 death");
  EXPECT_EQ(ingest_text({"train", 3, 0, 2}), "3 ingest workers for train, 2 deaths");
}

}  // namespace
}  // namespace train
