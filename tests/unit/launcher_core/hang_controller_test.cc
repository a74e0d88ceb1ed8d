// What follows if a rank hangs: the stacks of all ranks, then the end of the group.
#include "launcher/core/hang_controller.h"

#include <gtest/gtest.h>

#include <map>

#include "launcher/core/run_history.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using std::chrono::minutes;

class HangControllerTest : public ::testing::Test {
 protected:
  HangControllerTest() {
    for (const NodeId node : {kNodeA, kNodeB}) group_.hosts.attached(node, true);
  }

  /// Rank 1 has been silent for `silence`, rank 0 for `other`; both processes are in this state.
  std::optional<AttemptCause::Failure> see(Duration silence, Duration other = {},
                                           const std::string& state = "S") {
    progress_.begin_event(now_ += seconds(1));
    RanksSampled event{kFirst, {}};
    for (int rank = 0; rank < 2; ++rank) {
      RankSample& sample = event.ranks.emplace_back(RankSample{.rank = Rank{rank}});
      sample.process.state = state;
      const Duration quiet = rank == 1 ? silence : other;
      if (quiet == Duration{0}) ++signs_[rank];
      sample.progress = {.phase = Phase::Step,
                         .quiet_us = quiet / std::chrono::microseconds(1),
                         .signs = signs_[rank]};
      sample.progress.intervals.resize(kPhases.size());
    }
    hangs_.on(event);
    return hangs_.advance();
  }
  std::optional<AttemptCause::Failure> pass(Duration time) {
    progress_.begin_event(now_ += time);
    return hangs_.advance();
  }

  static JobSpec impatient() {
    JobSpec spec = two_workers();
    spec.run_config.failure_config.hang_timeout = seconds(10);
    return spec;
  }

  JobSpec spec_ = impatient();
  NodePool nodes_{2};
  CheckpointCoordinator checkpoints_{spec_.run_config, {}, {}, 0};
  RunProgress progress_{kStart, RunState::Running};
  AttemptGroup group_{kFirst, both(), {}};
  HangController hangs_{RunContext{spec_, nodes_, checkpoints_, progress_}, group_};
  TimePoint now_ = kStart;
  std::map<int, std::uint64_t> signs_;
};

TEST_F(HangControllerTest, AGroupEndsOnceItsStacksAreThere) {
  EXPECT_FALSE(see(seconds(10)));
  const auto orders = only<CollectStacks>(progress_.take_actions());
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].nodes, (std::vector<NodeId>{kNodeA, kNodeB}));
  EXPECT_FALSE(see(seconds(11)));
  EXPECT_TRUE(only<CollectStacks>(progress_.take_actions()).empty());  // asked for once

  hangs_.on(StacksCollected{kFirst, orders[0].why, "/run/stacks.txt",
                            "rank 0 in read\nrank 1 in lock\n", ""});
  const auto failure = hangs_.advance();

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::Hung);
  EXPECT_EQ(failure->rank, Rank{1});
  EXPECT_EQ(failure->node, kNodeB);
  const auto notes = only<Note>(progress_.take_actions());
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0].text, "stacks of all ranks: /run/stacks.txt");
  EXPECT_EQ(notes[1].text, "  rank 0 in read");
  EXPECT_EQ(notes[2].text, "  rank 1 in lock");
}

TEST_F(HangControllerTest, AHangIsFoundOnce) {
  EXPECT_FALSE(see(seconds(10)));
  const auto found = only<HangFound>(progress_.take_actions());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].attempt, kFirst);
  EXPECT_EQ(found[0].rank, Rank{1});
  EXPECT_EQ(found[0].node, nodes_.name(kNodeB));
  EXPECT_TRUE(found[0].text.starts_with("rank 1 on ")) << found[0].text;
  EXPECT_FALSE(see(seconds(11)));
  EXPECT_TRUE(only<HangFound>(progress_.take_actions()).empty());
}

TEST_F(HangControllerTest, AGroupEndsWithoutStacksIfTheyDoNotCome) {
  EXPECT_FALSE(see(seconds(10)));
  EXPECT_LE(hangs_.next_deadline(), now_ + kStacksWait);
  std::optional<AttemptCause::Failure> failure;
  int passed = 0;  // seconds, with samples
  for (; !failure && passed < 60; ++passed) failure = see(seconds(11 + passed));
  EXPECT_TRUE(failure);
  EXPECT_EQ(seconds(passed), kStacksWait);
  EXPECT_FALSE(see(seconds(100)));  // once
}

TEST_F(HangControllerTest, WhatTheFlightRecordsSayIsPartOfTheCause) {
  EXPECT_FALSE(see(seconds(10)));
  progress_.take_actions();
  StacksCollected stacks{kFirst, "hung"};
  stacks.flight_records = "rank 1 has not made call 3\nof another group\n";
  hangs_.on(stacks);

  const auto failure = hangs_.advance();

  ASSERT_TRUE(failure);
  EXPECT_TRUE(failure->cause.ends_with("; rank 1 has not made call 3")) << failure->cause;
  const auto notes = only<Note>(progress_.take_actions());
  ASSERT_GE(notes.size(), 2U);
  EXPECT_EQ(notes[0].text, "  rank 1 has not made call 3");
  EXPECT_EQ(notes[1].text, "  of another group");
}

TEST_F(HangControllerTest, ARankThatMovesAgainMeanwhileEndsNoGroup) {
  EXPECT_FALSE(see(seconds(10)));
  EXPECT_FALSE(see(seconds(0)));
  hangs_.on(StacksCollected{kFirst, "hung", "", "", ""});
  EXPECT_FALSE(pass(kStacksWait));
}

TEST_F(HangControllerTest, ARankThatMovesAgainSavesNoGroupInWhichAnotherHangs) {
  EXPECT_FALSE(see(seconds(10), seconds(9)));
  EXPECT_FALSE(see(seconds(11), seconds(10)));
  EXPECT_FALSE(see(seconds(0), seconds(11)));
  hangs_.on(StacksCollected{kFirst, "hung", "", "", ""});
  const auto ended = hangs_.advance();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->rank, Rank{0});
  EXPECT_NE(ended->cause.find("rank 0"), std::string::npos);
}

// Whoever takes stacks holds the process for a moment, and a sample may be of that moment.
TEST_F(HangControllerTest, ARankThatIsHeldMeanwhileEndsTheGroupOnceItIsLetGo) {
  EXPECT_FALSE(see(seconds(10)));
  EXPECT_FALSE(see(seconds(11), {}, "t"));
  hangs_.on(StacksCollected{kFirst, "hung", "", "", ""});
  EXPECT_FALSE(hangs_.advance());
  EXPECT_EQ(hangs_.next_deadline(), now_ + kJudgeEvery);
  EXPECT_FALSE(see(seconds(12), {}, "t"));
  const auto ended = see(seconds(13));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->rank, Rank{1});
}

TEST_F(HangControllerTest, ARankThatHasEndedMeanwhileEndsNoGroup) {
  EXPECT_FALSE(see(seconds(10)));
  group_.ranks.ended(Rank{1}, exited(0));
  hangs_.on(StacksCollected{kFirst, "hung", "", "", ""});
  EXPECT_FALSE(hangs_.advance());
  for (int i = 12; i < 20; ++i) EXPECT_FALSE(see(seconds(i)));
}

TEST_F(HangControllerTest, StacksThatSomebodyElseAskedForEndNoGroup) {
  EXPECT_FALSE(see(seconds(10)));
  hangs_.on(StacksCollected{kFirst, "request-1", "", "", ""});
  EXPECT_FALSE(hangs_.advance());
}

TEST_F(HangControllerTest, OfRanksThatHangAlikeTheOneThatIsInNoCollectiveCallIsBlamed) {
  EXPECT_FALSE(see(seconds(10), seconds(10)));
  const auto found = only<HangFound>(progress_.take_actions());
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rank, Rank{0});
  StacksCollected stacks{kFirst, "hung", "", "", ""};
  stacks.waiting = {Rank{0}};
  stacks.elsewhere = {{Rank{1}, "pthread_mutex_lock <- load main.cc:7"}};
  hangs_.on(stacks);

  const auto failure = hangs_.advance();

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, Rank{1});
  EXPECT_EQ(failure->node, kNodeB);
  EXPECT_TRUE(failure->cause.starts_with(
      "rank 1 on " + nodes_.name(kNodeB) +
      " is in pthread_mutex_lock <- load main.cc:7 by its stack, while rank 0 waits in a "
      "collective call or for a GPU; rank 0 on "))
      << failure->cause;
}

TEST_F(HangControllerTest, StacksBlameNobodyWhoDoesNotHangAlike) {
  EXPECT_FALSE(see(seconds(10)));
  StacksCollected stacks{kFirst, "hung", "", "", ""};
  stacks.waiting = {Rank{1}};
  stacks.elsewhere = {{Rank{0}, "main main.cc:7"}};
  hangs_.on(stacks);
  const auto failure = hangs_.advance();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, Rank{1});
  EXPECT_TRUE(failure->marks);
}

// ---- limits that were learned

/// Rank 1 has been silent for `silence`, after many short steps.
RanksSampled silent_after_steps(Attempt attempt, Duration silence) {
  RankSample sample{.rank = Rank{1}};
  sample.process.state = "S";
  sample.progress = {
      .phase = Phase::Step, .quiet_us = silence / std::chrono::microseconds(1), .signs = 1000};
  sample.progress.intervals.resize(kPhases.size());
  sample.progress.intervals.at(static_cast<std::size_t>(Phase::Step)) = {1000, 0, 1000};
  return {attempt, {sample}};
}

TEST(LearnedLimits, EndAGroupOnceTheyWereRightInThisRun) {
  Driven driven(two_workers(3));
  driven.running();
  EXPECT_TRUE(only<CollectStacks>(driven.handle(silent_after_steps(kFirst, minutes(2)), minutes(2)))
                  .empty());
  driven.handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)}, minutes(2));
  driven.handle(RankExited{kFirst, Rank{1}, killed(SIGKILL, true)}, minutes(2));
  driven.handle(NodeGroupGone{kFirst, kNodeA}, minutes(2));
  const Actions end = driven.handle(NodeGroupGone{kFirst, kNodeB}, minutes(2));
  ASSERT_EQ(only<AttemptEnded>(end).size(), 1u);
  EXPECT_EQ(only<AttemptEnded>(end)[0].learned_limits_right, true);
  RunHistory history(FailureConfig{}, /*elastic=*/false);
  history.add(Generation{1}, "now", record_of(only<AttemptEnded>(end)[0], "a cause"));
  history.add(Generation{1}, "now",
              boost::json::object{{"event", "run_ended"}});  // budgets are full again
  EXPECT_TRUE(history.failures().trusts_learned_limits);

  driven.handle(Tick{}, minutes(3));
  driven.handle(AttemptPrepared{kSecond, kNodeA, 41000}, minutes(3));
  driven.handle(AttemptPrepared{kSecond, kNodeB, 0}, minutes(3));
  driven.handle(AttemptStarted{kSecond, kNodeA, {{Rank{0}, 100}}}, minutes(3));
  driven.handle(AttemptStarted{kSecond, kNodeB, {{Rank{1}, 100}}}, minutes(3));
  EXPECT_EQ(
      only<CollectStacks>(driven.handle(silent_after_steps(kSecond, minutes(10)), minutes(13)))
          .size(),
      1u);
}

}  // namespace
}  // namespace train
