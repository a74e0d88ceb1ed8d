// What follows if a rank hangs: the stacks of all ranks, then the end of the group.
#include "launcher/core/hang_controller.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

class HangControllerTest : public ::testing::Test {
 protected:
  HangControllerTest() {
    spec_.run_config.failure_config.hang_timeout = seconds(10);
    for (const NodeId node : {kNodeA, kNodeB}) group_.hosts.attached(node, true);
  }

  /// Rank 1 has been silent for `silence`, rank 0 has just stepped.
  std::optional<AttemptCause::Failure> see(Duration silence) {
    progress_.begin_event(now_ += seconds(1));
    RanksSampled event{kFirst, {}};
    for (int rank = 0; rank < 2; ++rank) {
      RankSample& sample = event.ranks.emplace_back(RankSample{.rank = Rank{rank}});
      sample.process.state = "S";
      sample.progress = {.phase = Phase::Step,
                         .quiet_us = rank == 1 ? silence / std::chrono::microseconds(1) : 0};
      sample.progress.intervals.resize(kPhases.size());
    }
    hangs_.on(event);
    return hangs_.advance();
  }
  std::optional<AttemptCause::Failure> pass(Duration time) {
    progress_.begin_event(now_ += time);
    return hangs_.advance();
  }

  JobSpec spec_ = two_workers();
  NodePool nodes_{2};
  CheckpointCoordinator checkpoints_{spec_.run_config, {}, {}, 0};
  RunProgress progress_{kStart, RunState::Running};
  AttemptGroup group_{kFirst, both(), {}};
  HangController hangs_{RunContext{spec_, nodes_, checkpoints_, progress_}, group_};
  TimePoint now_ = kStart;
};

TEST_F(HangControllerTest, AGroupEndsOnceItsStacksAreThere) {
  EXPECT_FALSE(see(seconds(10)));
  const auto orders = only<CollectStacks>(progress_.take_actions());
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].nodes, (std::vector<NodeId>{kNodeA, kNodeB}));
  EXPECT_FALSE(see(seconds(11)));
  EXPECT_TRUE(only<CollectStacks>(progress_.take_actions()).empty());  // asked for once

  hangs_.on(StacksCollected{kFirst, orders[0].why, "/run/stacks.txt", "rank 1 in lock", ""});
  const auto failure = hangs_.advance();

  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::Hung);
  EXPECT_EQ(failure->rank, Rank{1});
  EXPECT_EQ(failure->node, kNodeB);
  const auto notes = only<Note>(progress_.take_actions());
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].text, "stacks of all ranks: /run/stacks.txt\nrank 1 in lock");
}

TEST_F(HangControllerTest, AGroupEndsWithoutStacksIfTheyDoNotCome) {
  EXPECT_FALSE(see(seconds(10)));
  EXPECT_LE(hangs_.next_deadline(), now_ + kStacksWait);
  EXPECT_FALSE(pass(kStacksWait - Duration{1}));
  EXPECT_TRUE(pass(Duration{1}));
  EXPECT_FALSE(pass(seconds(60)));  // once
}

TEST_F(HangControllerTest, ARankThatMovesAgainMeanwhileEndsNoGroup) {
  EXPECT_FALSE(see(seconds(10)));
  EXPECT_FALSE(see(seconds(0)));
  hangs_.on(StacksCollected{kFirst, "hung", "", "", ""});
  EXPECT_FALSE(pass(kStacksWait));
}

TEST_F(HangControllerTest, StacksThatSomebodyElseAskedForEndNoGroup) {
  EXPECT_FALSE(see(seconds(10)));
  hangs_.on(StacksCollected{kFirst, "request-1", "", "", ""});
  EXPECT_FALSE(hangs_.advance());
}

}  // namespace
}  // namespace train
