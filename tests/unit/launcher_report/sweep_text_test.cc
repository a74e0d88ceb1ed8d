#include "launcher/report/sweep_text.h"

#include <gtest/gtest.h>

namespace train {
namespace {

SweepTable three_trials() {
  return {.metric = "val_acc",
          .time = "epoch",
          .trials = 64,
          .best = 1,
          .rows = {{.trial = 0,
                    .state = "stopped",
                    .time = 4,
                    .value = 0.5,
                    .best = 0.51,
                    .parameters = "lr=0.1"},
                   {.trial = 1,
                    .state = "running",
                    .time = 12,
                    .value = 0.9,
                    .best = 0.912345678,
                    .parameters = "lr=0.001"},
                   {.trial = 2,
                    .state = "failed",
                    .parameters = "lr=10",
                    .cause = "rank 0 exited with code 7"}}};
}

TEST(SweepText, CountsTrialsByState) {
  EXPECT_EQ(sweep_counts(three_trials()), "3 of 64 trials: 1 running, 1 stopped, 1 failed");
  EXPECT_EQ(sweep_counts({.trials = 4}), "0 of 4 trials");
}

TEST(SweepText, NamesTheBest) {
  EXPECT_EQ(sweep_best(three_trials()), "best: trial 1, val_acc 0.912346: lr=0.001");
  EXPECT_EQ(sweep_best({}), "");
}

TEST(SweepText, ShowsATable) {
  EXPECT_EQ(sweep_table(three_trials(), {1, 0, 2}, 40, 0),
            "trial  state    epoch  val_acc  best      parameters\n"
            "0      stopped  4      0.5      0.51      lr=0.1\n"
            "1*     running  12     0.9      0.912346  lr=0.001\n"
            "2      failed   -      -        -         lr=10\n");
}

TEST(SweepText, OfManyTrialsShowsThoseThatRunAndTheBest) {
  SweepTable table = three_trials();
  EXPECT_EQ(sweep_table(table, {1, 0, 2}, 2, 0),
            "trial  state    epoch  val_acc  best      parameters\n"
            "0      stopped  4      0.5      0.51      lr=0.1\n"
            "1*     running  12     0.9      0.912346  lr=0.001\n"
            "... and 1 more trials: trials.csv has all of them\n");
}

TEST(SweepText, FitsTheTerminalAndDoesNotSteerIt) {
  SweepTable table = three_trials();
  table.rows = {
      {.trial = 0, .state = "running", .parameters = "word=\x1b[2Jaaaaaaaaaaaaaaaaaaaaaaa"}};
  table.metric = "m\x1b[31m";
  table.best.reset();
  EXPECT_EQ(sweep_table(table, {}, 40, 48),
            "trial  state    epoch  m  best  parameters\n"
            "0      running  -      -  -     word=aaaaaaaa...\n");
}

TEST(SweepText, SaysHowATrialEnded) {
  const SweepTable table = three_trials();
  EXPECT_EQ(trial_line(table, table.rows[0]), "trial 0 stopped: val_acc 0.5 at epoch 4");
  EXPECT_EQ(trial_line(table, table.rows[1]), "trial 1 started: lr=0.001");
  EXPECT_EQ(trial_line(table, table.rows[2]), "trial 2 failed: rank 0 exited with code 7");
  SweepRow finished = table.rows[1];
  finished.state = "finished";
  EXPECT_EQ(trial_line(table, finished),
            "trial 1 finished: val_acc 0.9 at epoch 12, the best so far");
  EXPECT_EQ(trial_line(table, {.trial = 3, .state = "finished"}), "trial 3 finished: no val_acc");
}

TEST(DrawnLines, ReplacesWhatWasDrawn) {
  DrawnLines drawn;
  EXPECT_EQ(drawn.draw("", {"one", "two"}, 80), "one\ntwo\n");
  EXPECT_EQ(drawn.draw("lasting\n", {"a line that is long"}, 10),
            "\x1b[2A\x1b[Jlasting\na line ...\n");
  EXPECT_EQ(drawn.draw("", {}, 80), "\x1b[1A\x1b[J");
  EXPECT_EQ(drawn.draw("", {}, 80), "");
}

}  // namespace
}  // namespace train
