#include "launcher/core/group_ending.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

AttemptCause::Failure failure_of(int rank, NodeId node, FailureKind kind = FailureKind::Worker) {
  return {.kind = kind, .rank = Rank{rank}, .end = killed(SIGSEGV), .node = node};
}

TEST(AttemptCause, TheFirstFailureIsTheCauseAndTheOthersFollowedFromIt) {
  AttemptCause cause;
  cause.rank_ended(Rank{1});  // before the failure: not collateral
  EXPECT_TRUE(cause.none());
  EXPECT_TRUE(cause.fail(failure_of(1, kNodeB)));
  EXPECT_FALSE(cause.fail(failure_of(0, kNodeA)));
  cause.rank_ended(Rank{1});

  const AttemptEnded ended = cause.describe(kFirst, {}, RankTable(both()), {});
  EXPECT_TRUE(ended.failed);
  EXPECT_EQ(ended.root_rank, Rank{1});
  EXPECT_EQ(ended.node, kNodeB);
  EXPECT_EQ(ended.collateral, 2);
}

TEST(AttemptCause, DoesNotCountTheRankThatHungAmongItsVictims) {
  AttemptCause cause;
  ASSERT_TRUE(cause.fail({.kind = FailureKind::Hung, .cause = "it hangs", .rank = Rank{1}}));
  cause.rank_ended(Rank{0});
  cause.rank_ended(Rank{1});  // we killed it
  EXPECT_EQ(cause.describe(Attempt{0}, {}, RankTable{}, {}).collateral, 1);
}

TEST(AttemptCause, AWorkersDeathHasAPlaceOnlyWhereRanksReport) {
  AttemptCause cause;
  cause.fail(failure_of(1, kNodeB));
  RankTable ranks(both());
  EXPECT_FALSE(cause.describe(kFirst, {}, ranks, {}).location);

  ranks.change(Rank{1}, [](auto& entry) { entry.reported = 5; });
  const FailureLocation expected{Rank{1}, kNodeB, 5, 7};
  EXPECT_EQ(cause.describe(kFirst, {}, ranks, checkpoint(7)).location, expected);

  AttemptCause start;
  start.fail(failure_of(1, kNodeB, FailureKind::Start));
  EXPECT_FALSE(start.describe(kFirst, {}, ranks, checkpoint(7)).location);
}

TEST(AttemptCause, AStopIsToldBeforeAResizeAndAFailureBeforeBoth) {
  const RankTable ranks(both());
  const std::optional<Stop> stop = Stop{StopKind::Command, "asked"};
  AttemptCause cause;
  EXPECT_EQ(cause.describe(kFirst, {}, ranks, {}).cause, "every rank ended with 0");
  cause.resize({.reason = "room", .preempted = true});
  cause.resize_unless_known({.reason = "another"});
  EXPECT_EQ(cause.describe(kFirst, {}, ranks, {}).cause, "room");
  EXPECT_TRUE(cause.describe(kFirst, {}, ranks, {}).resized);
  EXPECT_EQ(cause.describe(kFirst, {}, ranks, {}).failure, FailureKind::Preempted);
  EXPECT_EQ(cause.describe(kFirst, stop, ranks, {}).cause, "asked");
  EXPECT_FALSE(cause.describe(kFirst, stop, ranks, {}).resized);

  cause.fail({.kind = FailureKind::NodeLost, .cause = "node b is lost", .node = kNodeB});
  EXPECT_EQ(cause.describe(kFirst, stop, ranks, {}).cause, "node b is lost");
  EXPECT_FALSE(cause.describe(kFirst, {}, ranks, {}).resized);
}

// A running group of two ranks, without the rest of its run.
struct Ending {
  explicit Ending(RunState state = RunState::Running, bool reporting = true)
      : progress(kStart, state) {
    for (int rank = 0; rank < 2 && reporting; ++rank) {
      group.ranks.change(Rank{rank}, [](auto& entry) {
        entry.joined = true;
        entry.reported = 1;
      });
    }
  }
  void end_all(int code) {
    for (int rank = 0; rank < 2; ++rank) group.ranks.ended(Rank{rank}, exited(code));
    for (const NodeId node : {kNodeA, kNodeB}) group.hosts.gone(node);
  }

  JobSpec spec = two_workers();
  NodePool nodes{2};
  CheckpointCoordinator checkpoints{spec.run_config, {}, {}, 0};
  RunProgress progress;
  AttemptGroup group{kFirst, both(), {}};
  GroupEnding ending{RunContext{spec, nodes, checkpoints, progress}, group};
};

TEST(GroupEnding, AFailureStopsEveryNodeOnce) {
  Ending t;
  t.ending.fail(failure_of(1, kNodeB));
  EXPECT_EQ(t.progress.state(), RunState::TearingDown);
  t.ending.fail(failure_of(0, kNodeA));

  EXPECT_EQ(only<StopGroup>(t.progress.take_actions()),
            (std::vector<StopGroup>{{kFirst, kNodeA, kSurvivorGrace, "rank 1 failed"},
                                    {kFirst, kNodeB, kSurvivorGrace, "rank 1 failed"}}));
}

TEST(GroupEnding, AFailureOnADrainedNodeIsAPreemptionUnlessItIsPermanent) {
  Ending t;
  t.nodes.drain(kNodeB);
  t.ending.fail(failure_of(1, kNodeB));
  EXPECT_EQ(t.ending.describe().failure, FailureKind::Preempted);

  Ending permanent;
  permanent.nodes.drain(kNodeB);
  permanent.ending.fail(failure_of(1, kNodeB, FailureKind::Permanent));
  EXPECT_EQ(permanent.ending.describe().failure, FailureKind::Permanent);
}

TEST(GroupEnding, ResizesGracefullyOnlyWhereRanksReport) {
  Ending reporting;
  reporting.ending.resize({.reason = "room"}, TimePoint::max(), true);
  EXPECT_EQ(reporting.progress.state(), RunState::Pausing);
  EXPECT_EQ(only<Pause>(reporting.progress.take_actions()).size(), 2u);

  Ending silent(RunState::Running, false);
  silent.ending.resize({.reason = "room"}, TimePoint::max(), true);
  EXPECT_EQ(silent.progress.state(), RunState::TearingDown);
}

TEST(GroupEnding, ADrainLeavesAQuarterOfItsGraceForTheCommit) {
  Ending t;
  t.ending.drain(seconds(40), "node b is being drained");
  EXPECT_EQ(t.progress.state(), RunState::Pausing);
  t.group.ranks.change(Rank{0}, [](auto& entry) { entry.paused = 2; });
  t.progress.begin_event(kStart + seconds(29));
  t.ending.advance_pausing();
  EXPECT_EQ(t.progress.state(), RunState::Pausing);
  t.progress.begin_event(kStart + seconds(30));
  t.ending.advance_pausing();
  EXPECT_EQ(t.progress.state(), RunState::TearingDown);
}

TEST(GroupEnding, RanksThatCameToTheirEndWhileTheyWereToPauseEndWell) {
  Ending t;
  t.ending.resize({.reason = "room"}, TimePoint::max(), true);
  t.end_all(0);
  t.ending.advance_pausing();
  EXPECT_TRUE(t.ending.torn_down());
  EXPECT_TRUE(t.ending.cause().none());
}

// should_stop() told them, before the launcher told all where to stop.
TEST(GroupEnding, RanksThatLeftBecauseTheyWereToldToHaveNotComeToTheirEnd) {
  Ending t;
  t.ending.drain(seconds(40), "node b is being drained");
  for (int rank = 0; rank < 2; ++rank) t.group.ranks.ended(Rank{rank}, left_when_told());
  EXPECT_FALSE(t.group.ranks.own_end_at());

  t.ending.advance_pausing();

  ASSERT_TRUE(t.ending.cause().resize());
  EXPECT_TRUE(t.ending.cause().resize()->preempted);
}

// Its program may use SIGTERM to save its state.
TEST(GroupEnding, ADrainedNodeGivesProgramsThatDoNotReportTheGraceOfAStop) {
  Ending t(RunState::Running, false);
  t.spec.run_config.failure_config.stop_grace = seconds(20);
  t.ending.drain(seconds(40), "node b is being drained");
  EXPECT_EQ(only<StopGroup>(t.progress.take_actions()).at(0).grace, seconds(20));

  Ending soon(RunState::Running, false);
  soon.spec.run_config.failure_config.stop_grace = seconds(20);
  soon.ending.drain(seconds(8), "node b is being drained");
  EXPECT_EQ(only<StopGroup>(soon.progress.take_actions()).at(0).grace, seconds(6));
}

// Its neighbours lose their connections to the ranks that leave first.
TEST(GroupEnding, AFailureElsewhereDuringAPreemptionIsOneToo) {
  Ending t;
  t.nodes.drain(kNodeB);
  t.ending.drain(seconds(40), "node b is being drained");
  t.ending.fail(failure_of(0, kNodeA));
  EXPECT_EQ(t.ending.describe().failure, FailureKind::Preempted);

  Ending growing;
  growing.ending.resize({.reason = "room"}, TimePoint::max(), true);
  growing.ending.fail(failure_of(0, kNodeA));
  EXPECT_EQ(growing.ending.describe().failure, FailureKind::Worker);
}

TEST(GroupEnding, AGroupThatAnEarlierLauncherWasStoppingEndsWellOnlyByItself) {
  for (const int code : {0, 1}) {
    Ending t(RunState::TearingDown);
    t.group.was_ending = true;
    t.end_all(code);
    EXPECT_TRUE(t.ending.torn_down());
    EXPECT_EQ(t.ending.cause().none(), code == 0);
  }
}

TEST(GroupEnding, TheNewestOrderIsGivenAgainToANodeThatMayHaveMissedIt) {
  Ending t;
  t.ending.send_again(kNodeB);
  EXPECT_TRUE(t.progress.take_actions().empty());

  t.progress.set_stop({StopKind::Command, "asked"});
  t.ending.stop(false, "asked");
  t.progress.take_actions();
  t.progress.begin_event(kStart + seconds(1));
  t.ending.send_again(kNodeB);
  EXPECT_EQ(only<Pause>(t.progress.take_actions()).size(), 1u);
}

}  // namespace
}  // namespace train
