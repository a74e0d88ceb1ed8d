#include "launcher/core/checkpoint_requests.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStart{};
using Effects = CheckpointRequests::Effects;

class CheckpointRequestsTest : public ::testing::Test {
 protected:
  CheckpointRequestsTest() : ranks_(two_ranks()) {
    for (int rank = 0; rank < 2; ++rank)
      ranks_.change(Rank{rank}, [](auto& entry) { entry.joined = true; });
  }
  static Placement two_ranks() {
    Placement placement;
    placement.world_size = 2;
    PlacedNode node;
    node.node = NodeId{0};
    node.local_world_size = 2;
    placement.nodes.push_back(node);
    return placement;
  }
  static CheckpointPositionTold at_report(int rank, std::uint64_t reports,
                                          std::uint64_t request = 1) {
    return {.attempt = {},
            .rank = Rank{rank},
            .request = request,
            .reports = reports,
            .has_function = true};
  }
  static CheckpointPositionTold at_call(int rank, std::uint64_t calls) {
    return {.attempt = {}, .rank = Rank{rank}, .request = 1, .calls = calls};
  }
  static StagedShard shard(int rank, std::uint64_t checkpoint_seq, std::uint64_t request = 1) {
    StagedShard shard;
    shard.rank = Rank{rank};
    shard.checkpoint_seq = checkpoint_seq;
    shard.request = request;
    return shard;
  }
  static std::optional<CheckpointOrder> order_in(const Effects& effects) {
    for (const auto& effect : effects)
      if (const auto* order = std::get_if<CheckpointOrder>(&effect)) return *order;
    return std::nullopt;
  }
  static std::vector<CheckpointAnswered> answers_in(const Effects& effects) {
    std::vector<CheckpointAnswered> answers;
    for (const auto& effect : effects)
      if (const auto* answer = std::get_if<CheckpointAnswered>(&effect)) answers.push_back(*answer);
    return answers;
  }
  static std::string error_in(const Effects& effects) {
    const auto answers = answers_in(effects);
    return answers.size() == 1 ? answers.front().error : "not one answer";
  }
  void decide() {
    requests_.asked("a", ranks_, kStart);
    requests_.told(at_report(0, 4), ranks_);
    requests_.told(at_report(1, 3), ranks_);
  }

  RankTable ranks_;
  CheckpointRequests requests_;
};

TEST_F(CheckpointRequestsTest, AllMakeItAtTheFirstReportThatNoneHasPassed) {
  EXPECT_EQ(order_in(requests_.asked("a", ranks_, kStart)), (CheckpointOrder{.request = 1}));
  EXPECT_TRUE(requests_.told(at_report(0, 4), ranks_).empty());
  EXPECT_EQ(order_in(requests_.told(at_report(1, 3), ranks_)),
            (CheckpointOrder{.request = 1, .step = CheckpointStep::Make, .report_seq = 5}));
  requests_.staged(shard(0, 2));
  requests_.staged(shard(1, 2));
  EXPECT_TRUE(requests_.committed(1, 7).empty());  // another one
  EXPECT_EQ(answers_in(requests_.committed(2, 8)),
            (std::vector{CheckpointAnswered{.id = "a", .number = 8}}));
  EXPECT_FALSE(requests_.next_deadline());
}

TEST_F(CheckpointRequestsTest, ProgramsThatAskMakeItAtTheSameCall) {
  requests_.asked("a", ranks_, kStart);
  requests_.told(at_call(0, 6), ranks_);
  EXPECT_EQ(order_in(requests_.told(at_call(1, 7), ranks_)),
            (CheckpointOrder{.request = 1, .step = CheckpointStep::Make, .call = 8}));
}

TEST_F(CheckpointRequestsTest, WhoAsksMeanwhileGetsTheSameAnswer) {
  decide();
  EXPECT_TRUE(requests_.asked("b", ranks_, kStart + seconds(1)).empty());
  requests_.staged(shard(0, 1));
  EXPECT_EQ(answers_in(requests_.committed(1, 3)),
            (std::vector{CheckpointAnswered{.id = "a", .number = 3},
                         CheckpointAnswered{.id = "b", .number = 3}}));
  EXPECT_EQ(order_in(requests_.asked("c", ranks_, kStart))->request, 2u);
}

TEST_F(CheckpointRequestsTest, OnlySoManyMayAskAtATime) {
  for (std::size_t i = 0; i < kCheckpointAskersMax; ++i)
    EXPECT_TRUE(answers_in(requests_.asked("a", ranks_, kStart)).empty());
  EXPECT_EQ(error_in(requests_.asked("b", ranks_, kStart)),
            "too many have asked for a checkpoint already");
}

TEST_F(CheckpointRequestsTest, SaysWhyThereCanBeNone) {
  const auto refused = [&](CheckpointPositionTold first, CheckpointPositionTold second) {
    CheckpointRequests requests;
    requests.asked("a", ranks_, kStart);
    Effects effects = requests.told(first, ranks_);
    if (effects.empty()) effects = requests.told(second, ranks_);
    EXPECT_EQ(order_in(effects)->step, CheckpointStep::Cancel);
    return error_in(effects);
  };
  CheckpointPositionTold no_function = at_report(1, 3);
  no_function.has_function = false;
  EXPECT_EQ(refused(at_report(0, 3), no_function),
            "rank 1 has set no function with train::on_stop, and has not called "
            "train::checkpoint_requested()");
  EXPECT_EQ(refused(at_report(0, 3), at_report(1, 0)), "rank 1 has not reported yet");
  EXPECT_EQ(refused(at_report(0, 300), at_report(1, 3)),
            "the ranks do not report alike: rank 0 has made 300 reports, rank 1 3");
  EXPECT_EQ(refused(at_call(0, 3), at_call(1, 0)),
            "rank 1 has not called checkpoint_requested() yet");
  CheckpointPositionTold old = at_report(0, 0);
  old.error = "its SDK is old";
  EXPECT_EQ(refused(old, at_report(1, 0)), "rank 0: its SDK is old");
}

TEST_F(CheckpointRequestsTest, ARankThatHasNotJoinedOrHasEndedTakesNoPart) {
  ranks_.change(Rank{1}, [](auto& entry) { entry.joined = false; });
  EXPECT_EQ(error_in(requests_.asked("a", ranks_, kStart)), "rank 1 has not called the SDK yet");
  ranks_.change(Rank{1}, [](auto& entry) { entry.lost = true; });
  EXPECT_EQ(error_in(requests_.asked("a", ranks_, kStart)), "rank 1 has ended");
  EXPECT_FALSE(requests_.newest_order());  // nobody was held
}

TEST_F(CheckpointRequestsTest, ARankThatEndsLetsTheOthersGoOn) {
  requests_.asked("a", ranks_, kStart);
  const Effects effects = requests_.rank_ended(Rank{1});
  EXPECT_EQ(order_in(effects)->step, CheckpointStep::Cancel);
  EXPECT_EQ(error_in(effects), "rank 1 has ended");
}

TEST_F(CheckpointRequestsTest, ARankThatEndsAfterItsShardDoesNotMatter) {
  decide();
  requests_.staged(shard(1, 1));
  EXPECT_TRUE(requests_.rank_ended(Rank{1}).empty());
  EXPECT_EQ(error_in(requests_.rank_ended(Rank{0})),
            "rank 0 ended before it had made the checkpoint");
}

TEST_F(CheckpointRequestsTest, RanksThatDoNotAnswerHoldTheOthersForAWhileOnly) {
  requests_.asked("a", ranks_, kStart);
  requests_.told(at_report(0, 4), ranks_);
  ASSERT_EQ(requests_.next_deadline(), kStart + kPositionsWithin);
  EXPECT_TRUE(requests_.advance(kStart + kPositionsWithin - milliseconds(1)).empty());
  const Effects effects = requests_.advance(kStart + kPositionsWithin);
  EXPECT_EQ(order_in(effects)->step, CheckpointStep::Cancel);
  EXPECT_EQ(error_in(effects), "not all ranks answered within 10 s");
  EXPECT_TRUE(requests_.told(at_report(1, 4), ranks_).empty());  // late
}

TEST_F(CheckpointRequestsTest, WhoAskedIsAnsweredInTimeThoughTheCheckpointComesLater) {
  decide();
  ASSERT_EQ(requests_.next_deadline(), kStart + kCheckpointWithin);
  EXPECT_EQ(error_in(requests_.advance(kStart + kCheckpointWithin)),
            "the ranks have not made it within 10 min; they will if they come to report 5");
  // They may never come there, so the next one asks anew.
  EXPECT_EQ(order_in(requests_.asked("b", ranks_, kStart + kCheckpointWithin)),
            (CheckpointOrder{.request = 2}));
  requests_.staged(shard(0, 1));  // of the first request
  requests_.told(at_report(0, 9, 2), ranks_);
  requests_.told(at_report(1, 9, 2), ranks_);
  requests_.staged(shard(0, 2, 2));
  EXPECT_EQ(answers_in(requests_.committed(2, 3)),
            (std::vector{CheckpointAnswered{.id = "b", .number = 3}}));
}

TEST_F(CheckpointRequestsTest, RefusesCountsThatCannotBe) {
  requests_.asked("a", ranks_, kStart);
  requests_.told(at_call(0, 500), ranks_);
  EXPECT_EQ(error_in(requests_.told(at_call(1, 10), ranks_)),
            "the ranks do not call checkpoint_requested() alike: rank 0 has called it 500 times, "
            "rank 1 10");
  requests_.asked("a", ranks_, kStart);
  EXPECT_EQ(error_in(requests_.told(at_report(1, UINT64_MAX, 2), ranks_)),
            "rank 1 says that it has got impossibly far");
}

TEST_F(CheckpointRequestsTest, ACheckpointThatIsNotKeptIsNoAnswerYouWant) {
  decide();
  requests_.staged(shard(0, 1));
  EXPECT_EQ(error_in(requests_.not_kept(1, "no space")), "the checkpoint is not kept: no space");
}

TEST_F(CheckpointRequestsTest, AGroupThatStopsIsNotHeld) {
  requests_.asked("a", ranks_, kStart);
  const Effects effects = requests_.leave_running(RunState::Pausing);
  EXPECT_EQ(order_in(effects)->step, CheckpointStep::Cancel);
  EXPECT_EQ(error_in(effects), "the workers do not train any more: the run is pausing");
}

TEST_F(CheckpointRequestsTest, WhatIsDecidedStaysSoUntilTheAttemptEnds) {
  decide();
  EXPECT_TRUE(requests_.leave_running(RunState::Pausing).empty());
  EXPECT_EQ(error_in(requests_.attempt_ended()),
            "the workers ended before the checkpoint was kept");
}

// ---- after another launcher

TEST_F(CheckpointRequestsTest, AQuestionOfAnEarlierLauncherIsTakenBack) {
  requests_.found({.request = 3});
  const Effects effects = requests_.drop_found();
  EXPECT_EQ(order_in(effects), (CheckpointOrder{.request = 3, .step = CheckpointStep::Cancel}));
  EXPECT_TRUE(std::holds_alternative<Note>(effects.back()));
  EXPECT_EQ(order_in(requests_.asked("a", ranks_, kStart))->request, 4u);
}

TEST_F(CheckpointRequestsTest, ADecisionThatReachedOneNodeHoldsForAll) {
  const CheckpointOrder make{.request = 3, .step = CheckpointStep::Make, .report_seq = 9};
  requests_.found({.request = 3});
  requests_.found(make);
  requests_.found({.request = 3});
  requests_.found({.request = 2});
  EXPECT_EQ(order_in(requests_.drop_found()), make);
}

}  // namespace
}  // namespace train
