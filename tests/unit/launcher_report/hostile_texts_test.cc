// Puts others' texts everywhere into what train-run shows during a run and at its end.
#include "tests/unit/lib_base/hostile_texts.h"

#include <gtest/gtest.h>

#include "launcher/report/checkpoint_table.h"
#include "launcher/report/output_view.h"
#include "launcher/report/progress.h"
#include "launcher/report/summary.h"

namespace train {
namespace {

constexpr Moment kAt{};

/// Return the progress output with `text` as every text.
std::string progress_with(const std::string& text, OutputMode mode) {
  Progress progress({.mode = mode, .run = text, .path = text, .metrics = {text}}, kAt);
  std::string shown = progress.started(2, 1, kAt);
  shown += progress.waiting(2, std::vector<WaitingNode>{{text, text, {}}}, kAt);
  shown += progress.attempt_started({.attempt = 1, .world_size = 2, .resumes_from = text}, kAt);
  const ReportRecord report{.report_seq = 1, .metrics = {{text, text}, {"loss", 0.5}}};
  shown += progress.reports(std::vector{report}, kAt);
  shown += progress.checkpoint({.name = text, .path = text}, kAt);
  shown += progress.validated({.name = text, .status = text, .metrics = {{text, text}}}, kAt);
  shown += progress.restarting({.cause = text, .resumes_from = text, .failures = text}, kAt);
  shown += progress.warning(text, kAt);
  shown += progress.phase(text, kAt);
  OutputView output({});
  shown += progress.worker_output(output.feed(text, 0, 1, text, true, kAt.now), kAt);
  shown += progress.worker_output(output.close(), kAt);
  return shown + progress.finish(kAt);
}

RunSummary summary_with(const std::string& text) {
  WorkerFailure failure;
  failure.node = text;
  failure.end = {.status = 1, .last_lines = {text}, .error = UserError{text, text, text}};
  const CheckpointSummary checkpoint{text, text, text, 0.5};
  return {.run = text,
          .path = text,
          .logs = text,
          .outcome = Outcome::Failed,
          .reason = text,
          .attempts = {{.cause = text}},
          .root = root_cause_of(failure, 1),
          .best = checkpoint,
          .latest = checkpoint,
          .metrics = {{text, text}},
          .results = {"{}"},  // JSON only, as RunSummaryBuilder ensures
          .warnings = {text},
          .resume_command = text};
}

TEST(HostileTexts, SteerNothingInTheProgress) {
  for (const std::string& text : hostile_texts()) {
    for (const OutputMode mode : {OutputMode::Plain, OutputMode::Json})
      EXPECT_TRUE(steers_nothing(progress_with(text, mode), true)) << testing::PrintToString(text);
  }
}

TEST(HostileTexts, SteerNothingInTheSummary) {
  for (const std::string& text : hostile_texts()) {
    for (const Outcome outcome : {Outcome::Failed, Outcome::Succeeded, Outcome::Refused}) {
      RunSummary summary = summary_with(text);
      summary.outcome = outcome;
      if (outcome == Outcome::Refused) summary.error = Error{Errc::Io, text, text};
      EXPECT_TRUE(steers_nothing(summary_text(summary, {}), true)) << testing::PrintToString(text);
      EXPECT_TRUE(steers_nothing(end_event(summary), true)) << testing::PrintToString(text);
    }
  }
}

TEST(HostileTexts, SteerNothingInATableOfCheckpoints) {
  for (const std::string& text : hostile_texts()) {
    const CheckpointTable table{.score_attribute = text,
                                .rows = {{.name = text, .path = text, .error = text},
                                         {.name = text,
                                          .path = text,
                                          .created = text,
                                          .score = 0.5,
                                          .metrics = {{text, text}},
                                          .validation = text,
                                          .validation_error = text,
                                          .nodes = {text, text}}}};
    EXPECT_TRUE(steers_nothing(checkpoints_text(table), true)) << testing::PrintToString(text);
    EXPECT_TRUE(steers_nothing(checkpoints_json(table), true)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace train
