// What the summary says of a run's attempts: causes, results, and lost work.
#include "launcher/cluster/run/run_summary_builder.h"

#include <boost/json.hpp>

#include "launcher/cluster/run/run_record.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

struct SetClock final : Clock {
  TimePoint now() const override { return TimePoint(seconds(1000)) + passed; }
  std::chrono::system_clock::time_point wall() const override {
    return std::chrono::system_clock::time_point(std::chrono::hours(500'000)) + passed;
  }
  Duration passed{};
};

class RunSummaryBuilderTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    spec_.command = {"./train"};
    open();
  }
  void open(const RunRecordOptions& options = {}) {
    builder_.reset();
    record_.reset();
    auto record = RunRecord::open(spec_, options);
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
    builder_.emplace(
        spec_, *record_, clock_, [](const std::function<void()>& work) { work(); }, log_);
    builder_->placed({.world_size = 2,
                      .nodes = {{NodeId{0}, NodeRank{0}, Rank{0}, 2}},
                      .reason = "",
                      .never = false});
  }
  void at(Duration passed) { clock_.passed = passed; }
  void begin(std::uint32_t attempt, Duration passed) {
    at(passed);
    builder_->attempt_started(Attempt{attempt}, 2);
  }
  void report(std::uint32_t attempt, std::uint64_t report_seq) {
    ReportRecord record;
    record.attempt = attempt;
    record.report_seq = report_seq;
    builder_->reported(record);
  }
  void commit(std::uint32_t attempt, std::uint64_t report_seq, Duration passed) {
    at(passed);
    CheckpointManager::Outcome outcome;
    outcome.committed.info = {1, "/runs/vit/checkpoints/checkpoint_000001", 0};
    builder_->checkpoint_committed(outcome, Attempt{attempt}, report_seq);
  }
  static RankExited killed(int rank, int signal) {
    return {Attempt{0}, Rank{rank}, {.signaled = true, .status = signal}};
  }
  static AttemptEnded ended_well(std::uint32_t attempt) {
    AttemptEnded ended;
    ended.attempt = Attempt{attempt};
    ended.cause = "every rank ended with 0";
    return ended;
  }
  static AttemptEnded failed(std::uint32_t attempt, int rank) {
    AttemptEnded ended;
    ended.attempt = Attempt{attempt};
    ended.failed = true;
    ended.failure = FailureKind::Worker;
    ended.root_rank = Rank{rank};
    ended.root_end = WorkerEnd{.signaled = true, .status = 11};
    ended.root_node = "n0";
    ended.collateral = 1;
    return ended;
  }
  RunSummary summary(RunState outcome, std::optional<StopKind> stop = {}) const {
    return builder_->summary({outcome, "", stop}, {}, {});
  }

  TempFolder temp_;
  JobSpec spec_;
  SetClock clock_;
  std::unique_ptr<RunRecord> record_;
  const RunLog log_{Log(), nullptr};
  std::optional<RunSummaryBuilder> builder_;
};

TEST_F(RunSummaryBuilderTest, AFailedAttemptLosesWhatCameAfterItsNewestCheckpoint) {
  begin(0, seconds(2));
  report(0, 5);
  commit(0, 4, seconds(7));
  report(0, 9);
  at(seconds(10));
  builder_->attempt_ended(failed(0, 1));

  const auto attempts = summary(RunState::Errored).attempts;

  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].duration, seconds(8));
  EXPECT_EQ(attempts[0].lost, seconds(3));
  EXPECT_EQ(attempts[0].redone, 5);
}

TEST_F(RunSummaryBuilderTest, ARunThatAnotherLauncherTookOverIsNotOursToResume) {
  begin(0, seconds(2));
  builder_->refuse(Error{Errc::Fenced, "another train-run has taken this run over", ""});

  const RunSummary said = summary(RunState::Errored);

  EXPECT_EQ(said.outcome, Outcome::Replaced);
  EXPECT_EQ(said.resume_command, "");
  ASSERT_TRUE(said.error);
  EXPECT_EQ(said.error->hint, "follow it with train-run attach " + said.path);
}

TEST_F(RunSummaryBuilderTest, WithoutACheckpointOfItsOwnAnAttemptLosesAll) {
  begin(0, seconds(0));
  report(0, 6);
  commit(0, 6, seconds(4));
  at(seconds(5));
  builder_->attempt_ended(failed(0, 1));
  begin(1, seconds(20));
  report(1, 3);
  at(seconds(26));
  builder_->attempt_ended(failed(1, 1));

  const auto attempts = summary(RunState::Errored).attempts;

  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].lost, seconds(1));
  EXPECT_EQ(attempts[0].redone, 0);
  EXPECT_EQ(attempts[1].lost, seconds(6));
  EXPECT_EQ(attempts[1].redone, 3);
}

TEST_F(RunSummaryBuilderTest, AnAttemptThatEndedWellOrWasReFormedLosesNothing) {
  begin(0, seconds(0));
  report(0, 6);
  AttemptEnded resized = ended_well(0);
  resized.cause = "there is room for 3 workers instead of 2";
  resized.resized = true;
  at(seconds(9));
  builder_->attempt_ended(resized);
  begin(1, seconds(9));
  builder_->attempt_ended(ended_well(1));

  const auto attempts = summary(RunState::Finished).attempts;

  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].cause, "there is room for 3 workers instead of 2");
  EXPECT_EQ(attempts[0].lost, Duration{});
  EXPECT_EQ(attempts[1].cause, "");
}

TEST_F(RunSummaryBuilderTest, WhatAnInterruptedRunLosesIsCountedFromItsLastCheckpoint) {
  begin(0, seconds(0));
  report(0, 9);
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Interrupt).lost_steps, 9);
  commit(0, 7, seconds(4));
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Interrupt).lost_steps, 2);
  commit(0, 12, seconds(5));  // of a report that the log lacks so far
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Interrupt).lost_steps, 0);
  EXPECT_EQ(summary(RunState::Finished).lost_steps, std::nullopt);
}

TEST_F(RunSummaryBuilderTest, TheRootCauseIsTheEndOfTheRankThatFailedFirst) {
  begin(0, seconds(0));
  builder_->rank_exited("n0", killed(1, 11));
  builder_->rank_exited("n0", killed(0, 15));
  builder_->attempt_ended(failed(0, 1));

  const RunSummary told = summary(RunState::Errored);

  ASSERT_TRUE(told.root && told.root->worker);
  EXPECT_EQ(told.root->worker->rank, 1);
  EXPECT_EQ(told.root->worker->end.status, 11);
  EXPECT_EQ(told.root->collateral, 1);
  EXPECT_EQ(told.logs, record_->folder().rank(Attempt{0}, Rank{1}));
  EXPECT_EQ(told.outcome, Outcome::Failed);
  EXPECT_EQ(builder_->last_cause(), told.root->text.cause);
  EXPECT_EQ(told.attempts[0].cause, told.root->text.cause);
  EXPECT_NE(text_of(record_->folder().cause_json(Attempt{0})).find("SIGSEGV"), std::string::npos);
  EXPECT_NE(text_of(record_->folder().error_json(Attempt{0}, Rank{0})).find("SIGTERM"),
            std::string::npos);
}

TEST_F(RunSummaryBuilderTest, AWorkerThatCannotBeKilledIsNamedBesideTheDeathThatCameFirst) {
  begin(0, seconds(0));
  builder_->rank_exited("n0", killed(1, 11));
  AttemptEnded ended = failed(0, 1);
  ended.stuck = {NodeId{0}};
  ended.cause = "rank 0 on n0 (pid 7) cannot be killed";
  builder_->attempt_ended(ended);

  const RunSummary told = summary(RunState::Errored);

  ASSERT_TRUE(told.root && told.root->worker);
  EXPECT_EQ(told.root->worker->rank, 1);
  EXPECT_EQ(told.root->text.cause,
            "rank 1 on n0 was killed by SIGSEGV (segmentation fault); rank 0 on n0 (pid 7) cannot "
            "be killed");
  EXPECT_EQ(told.attempts[0].cause, told.root->text.cause);
  EXPECT_NE(text_of(record_->folder().cause_json(Attempt{0})).find("cannot be killed"),
            std::string::npos);
}

// Of the ranks of an attempt, and in the order of guilt: not those that we have stopped.
TEST_F(RunSummaryBuilderTest, TheRanksOfAFailedAttemptAreTold) {
  begin(0, seconds(0));
  builder_->rank_exited("n0", killed(1, 11));
  builder_->rank_exited("n0", killed(0, 6));
  builder_->rank_exited("n0", {Attempt{0}, Rank{2}, {.status = 3, .stop_requested = true}});
  builder_->rank_exited("n0", {Attempt{0}, Rank{3}, {}});
  builder_->rank_exited("n0", {Attempt{1}, Rank{4}, {.status = 3}});
  builder_->attempt_ended(failed(0, 1));

  const ExceptionNews news = builder_->exception_of(Attempt{0});

  EXPECT_EQ(news.attempt, 0u);
  EXPECT_EQ(news.cause, builder_->last_cause());
  std::vector<std::int32_t> ranks;
  for (const WorkerFailure& failure : news.ranks) ranks.push_back(failure.rank);
  EXPECT_EQ(ranks, (std::vector<std::int32_t>{1, 0}));
}

TEST_F(RunSummaryBuilderTest, AnEarlierFailureIsNotTheCauseOfALaterEnd) {
  begin(0, seconds(0));
  builder_->rank_exited("n0", killed(1, 11));
  builder_->attempt_ended(failed(0, 1));
  EXPECT_TRUE(builder_->last_failed());
  begin(1, seconds(3));
  AttemptEnded drained = ended_well(1);
  drained.cause = "node n0 is being drained: its traind was told to leave";
  drained.failure = FailureKind::Preempted;
  builder_->attempt_ended(drained);
  EXPECT_FALSE(builder_->last_failed());

  const RunSummary told = summary(RunState::Errored);

  ASSERT_TRUE(told.root);
  EXPECT_FALSE(told.root->worker);
  EXPECT_EQ(told.root->text.cause, drained.cause);
  EXPECT_EQ(exit_code_of(told), 1);
  begin(2, seconds(4));
  builder_->attempt_ended(ended_well(2));  // such as to grow, and then there are no nodes
  EXPECT_FALSE(summary(RunState::Errored).root);
}

TEST_F(RunSummaryBuilderTest, ANodeThatWasLostIsNamedWithoutARank) {
  begin(0, seconds(0));
  AttemptEnded ended;
  ended.attempt = Attempt{0};
  ended.failed = true;
  ended.failure = FailureKind::NodeLost;
  ended.cause = "n0 was lost";
  ended.root_node = "n0";
  ended.collateral = 2;
  builder_->attempt_ended(ended);

  const RunSummary told = summary(RunState::Errored);

  ASSERT_TRUE(told.root);
  EXPECT_FALSE(told.root->worker);
  EXPECT_EQ(told.root->node, "n0");
  EXPECT_EQ(told.root->text.cause, "n0 was lost");
  EXPECT_EQ(told.root->collateral, 2);
}

TEST_F(RunSummaryBuilderTest, TheBestCheckpointIsToldBesideTheLatest) {
  spec_.run_config.checkpoint_config.score_attribute = "acc";
  begin(0, seconds(0));
  CheckpointManager::Outcome outcome;
  outcome.committed.info = {2, "/runs/vit/checkpoints/checkpoint_000002", 0};
  outcome.committed.score = 0.5;
  outcome.best.emplace().score = 0.9;
  outcome.best->info = {1, "/runs/vit/checkpoints/checkpoint_000001", 0};
  builder_->checkpoint_committed(outcome, Attempt{0}, 4);

  const RunSummary told = summary(RunState::Finished);

  EXPECT_EQ(told.world_size, 2);
  ASSERT_TRUE(told.latest && told.best);
  EXPECT_EQ(told.latest->name, "checkpoint_000002");
  EXPECT_EQ(told.best->name, "checkpoint_000001");
  EXPECT_EQ(told.best->score_metric, "acc");
  EXPECT_EQ(told.best->score, 0.9);
  EXPECT_EQ(told.latest->score, 0.5);
}

TEST_F(RunSummaryBuilderTest, ARankThatEndedWellLeavesNoErrorFile) {
  begin(0, seconds(0));
  builder_->rank_exited("n0", RankExited{Attempt{0}, Rank{0}, {}});
  EXPECT_EQ(text_of(record_->folder().error_json(Attempt{0}, Rank{0})), "");
}

TEST_F(RunSummaryBuilderTest, ACommandThatIsNotThereIsTheCause) {
  begin(0, seconds(0));
  AttemptEnded ended = failed(0, 0);
  ended.cause = "rank 0 could not be started on n0";
  ended.root_end.reset();
  ended.start_error = Error{Errc::NotFound, "./train does not exist", ""};
  builder_->attempt_ended(ended);

  const RunSummary told = summary(RunState::Errored);

  EXPECT_EQ(told.root->text.cause, "rank 0 could not be started on n0");
  EXPECT_EQ(told.root->node, "n0");
  ASSERT_TRUE(told.root->worker);
  EXPECT_EQ(told.root->worker->rank, 0);
  EXPECT_EQ(told.root->worker->attempt, 0u);
  EXPECT_EQ(told.root->worker->program, "./train");
  EXPECT_EQ(told.root->worker->detail, "./train does not exist");
  EXPECT_EQ(exit_code_of(told), 127);
  begin(1, seconds(1));
  ended.attempt = Attempt{1};
  builder_->attempt_ended(ended);
  EXPECT_EQ(summary(RunState::Errored).root->worker->attempt, 1u);
}

TEST_F(RunSummaryBuilderTest, ARankThatCannotStartGivesTheExitCodeOfAShell) {
  begin(0, seconds(0));
  AttemptEnded ended = failed(0, 0);
  ended.root_end.reset();
  for (const auto& [code, exit] : {std::pair(Errc::NotFound, 127), std::pair(Errc::Permission, 126),
                                   std::pair(Errc::InvalidArgument, 1), std::pair(Errc::Io, 1)}) {
    ended.start_error = Error{code, "it does not start", ""};
    builder_->attempt_ended(ended);
    EXPECT_EQ(exit_code_of(summary(RunState::Errored)), exit) << to_string(code);
  }
}

TEST_F(RunSummaryBuilderTest, ARunWhoseFirstAttemptNeverBeganWasRefused) {
  builder_->refuse(Error{Errc::Unavailable, "no node answers", "start traind"});
  const RunSummary told = summary(RunState::Errored);
  EXPECT_EQ(told.outcome, Outcome::Refused);
  EXPECT_EQ(told.error->message, "no node answers");
  EXPECT_EQ(told.resume_command, "");
}

TEST_F(RunSummaryBuilderTest, ARunThatWasGivenUpUnderAnEarlierLauncherHasFailed) {
  const auto given_up = record_of(StateChanged{.from = RunState::TearingDown,
                                               .to = RunState::Errored,
                                               .trigger = RunTrigger::GaveUp,
                                               .attempt = Attempt{0},
                                               .reason = "no restart"});
  ASSERT_TRUE(record_->journal().append({given_up}, "2026-11-21T09:38:00.123456Z"));
  open({.restarted = true});

  EXPECT_EQ(summary(RunState::Errored).outcome, Outcome::Failed);
}

TEST_F(RunSummaryBuilderTest, WhoStoppedARunSaysHowItEnded) {
  begin(0, seconds(0));
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Terminate).outcome, Outcome::Preempted);
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Interrupt).outcome, Outcome::Interrupted);
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Command).outcome, Outcome::Interrupted);
  EXPECT_EQ(summary(RunState::Stopped, StopKind::Command).resume_command,
            "train-run resume " + temp_.path() + "/vit");
  EXPECT_EQ(summary(RunState::Finished).outcome, Outcome::Succeeded);
  EXPECT_EQ(summary(RunState::Finished).resume_command, "");
}

TEST_F(RunSummaryBuilderTest, ResultsStandAtTheirRank) {
  begin(0, seconds(0));
  builder_->result(Rank{1}, "3");
  EXPECT_EQ(summary(RunState::Finished).results, (std::vector<std::string>{"", "3"}));
}

TEST_F(RunSummaryBuilderTest, AResultThatExitJsonCouldNotHoldIsOmittedAndSaidSo) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  begin(0, seconds(0));
  builder_->result(Rank{0}, nested(31));
  builder_->result(Rank{1}, nested(32));
  builder_->result(Rank{2}, "{");

  const RunSummary said = summary(RunState::Finished);

  EXPECT_EQ(said.results, (std::vector<std::string>{nested(31)}));
  EXPECT_EQ(said.warnings,
            (std::vector<std::string>{
                "the result of rank 1 is nested more than 31 levels deep and is omitted",
                "the result of rank 2 is not JSON and is omitted"}));
  boost::system::error_code ec;
  (void)boost::json::parse(exit_json(said), ec);
  EXPECT_FALSE(ec) << ec.message();
}

TEST_F(RunSummaryBuilderTest, AWarningIsKeptOnceAndAHundredAtMost) {
  for (int i = 0; i < 200; ++i) {
    builder_->warn("the disk is slow");
    builder_->warn(fmt::format("warning {}", i));
  }
  const auto warnings = summary(RunState::Finished).warnings;
  EXPECT_EQ(warnings.size(), 100u);
  EXPECT_EQ(warnings[0], "the disk is slow");
  EXPECT_EQ(warnings[1], "warning 0");
}

TEST_F(RunSummaryBuilderTest, AnAttemptThatIsFoundRunningHasItsOwnBeginning) {
  const auto began = format_utc(clock_.wall());
  ASSERT_TRUE(record_->journal().append(
      {{{"event", "attempt_started"}, {"attempt", 0}, {"world_size", 2}, {"nnodes", 1}}}, began));
  at(seconds(50));
  open();
  ASSERT_EQ(summary(RunState::Errored).attempts.size(), 1u);
  EXPECT_EQ(summary(RunState::Errored).attempts[0].cause, "its launcher ended");

  begin(0, seconds(60));
  at(seconds(65));
  builder_->attempt_ended(ended_well(0));

  const auto attempts = summary(RunState::Finished).attempts;
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].cause, "");
  EXPECT_EQ(attempts[0].duration, seconds(65));
}

TEST_F(RunSummaryBuilderTest, AResumedRunBeganWithItsFirstAttempt) {
  const auto began = clock_.wall();
  for (const auto& [attempt, passed] : {std::pair(0, seconds(0)), std::pair(1, seconds(20))}) {
    at(passed);
    ASSERT_TRUE(record_->journal().append({{{"event", "attempt_started"}, {"attempt", attempt}}},
                                          format_utc(clock_.wall())));
  }
  at(seconds(50));
  open();
  begin(2, seconds(60));
  at(seconds(65));

  const RunSummary told = summary(RunState::Finished);

  EXPECT_EQ(told.begun, began);
  EXPECT_EQ(told.duration, seconds(65));
}

TEST_F(RunSummaryBuilderTest, ACheckpointOfAnEarlierLauncherCountsForTheAttemptThatIsFoundRunning) {
  const auto began = format_utc(clock_.wall());
  ASSERT_TRUE(record_->journal().append(
      {{{"event", "attempt_started"}, {"attempt", 0}, {"world_size", 2}, {"nnodes", 1}}}, began));
  at(seconds(30));
  ASSERT_TRUE(record_->journal().append(
      {checkpoint_record(Attempt{0}, 1, 51, {1, "/runs/vit/checkpoints/checkpoint_000001", -1})},
      format_utc(clock_.wall())));
  at(seconds(50));
  open();

  begin(0, seconds(60));
  report(0, 191);
  at(seconds(100));
  builder_->attempt_ended(failed(0, 1));

  const RunSummary told = summary(RunState::Errored);
  EXPECT_EQ(told.lost_steps, 140);
  ASSERT_EQ(told.attempts.size(), 1u);
  EXPECT_EQ(told.attempts[0].redone, 140);
  EXPECT_EQ(told.attempts[0].lost, seconds(70));
}

TEST_F(RunSummaryBuilderTest, AnAttemptThatIsFoundEndingHasFailedAndWasNotRefused) {
  const auto began = format_utc(clock_.wall());
  ASSERT_TRUE(record_->journal().append(
      {{{"event", "attempt_started"}, {"attempt", 0}, {"world_size", 2}, {"nnodes", 1}}}, began));
  open();

  AttemptEnded ended = ended_well(0);
  ended.failed = true;
  builder_->attempt_ended(ended);

  EXPECT_EQ(summary(RunState::Errored).outcome, Outcome::Failed);
}

TEST_F(RunSummaryBuilderTest, TellsOfTheIngestWorkersOfAllAttempts) {
  builder_->ingest_changed({Attempt{0}, "train", 2, 2, 1});
  builder_->ingest_changed({Attempt{1}, "train", 3, 1, 2});

  const auto ingest = summary(RunState::Finished).ingest;

  ASSERT_EQ(ingest.size(), 1u);
  EXPECT_EQ(ingest_text(ingest[0]), "3 ingest workers for train, 3 deaths");
}

}  // namespace
}  // namespace train
