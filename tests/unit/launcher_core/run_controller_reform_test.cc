// RunController, changes of the group: an earlier launcher's attempt, growing, draining, bad nodes.
#include <algorithm>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;

template <class Action>
std::vector<Action> only(const Actions& actions) {
  std::vector<Action> found;
  for (const RunAction& action : actions) {
    if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
  }
  return found;
}

// ---- an earlier launcher's attempt

RunStart with_living(bool pausing = false) {
  RunStart start{.first_attempt = kSecond, .checkpoint = checkpoint(3), .expected_nodes = 2};
  start.living = LivingAttempt{.id = kFirst,
                               .epoch = Epoch{1},
                               .placement = both(),
                               .node_names = {"node-a", "node-b"},
                               .restored = {},
                               .restart_count = 1,
                               .pausing = pausing,
                               .settled_index = 5,
                               .settled_path = "checkpoint_3"};
  return start;
}

TEST(RunController, ARunThatHadFinishedOnlyEnds) {
  RunStart start{.first_attempt = kSecond, .expected_nodes = 2};
  start.finished = true;
  Driven driven(two_workers(1), std::move(start));

  EXPECT_EQ(driven.handle(node_up(kNodeA, {kFirst})), (Actions{Release{kFirst, kNodeA}}));
  const Actions actions = driven.handle(node_up(kNodeB));

  EXPECT_EQ(driven.run.state(), RunState::Finished);
  EXPECT_EQ(std::get<RunEnded>(actions.back()).outcome, RunState::Finished);
}

/// Of a launcher that died while it stopped the workers, because rank 1 had failed.
RunStart with_ending() {
  RunStart start = with_living();
  start.living->ending = true;
  return start;
}

struct Taken : Driven {
  explicit Taken(RunStart start = with_living(), int max_failures = 1)
      : Driven(two_workers(max_failures), std::move(start)) {}
  void attach(NodeId node, bool has_workers = true) {
    handle(node_up(node, {kFirst}));
    handle(SupervisorAttached{kFirst, node, has_workers});
  }
  void attach_both() {
    attach(kNodeA);
    attach(kNodeB);
    for (int rank : {0, 1}) {
      handle(RankJoined{kFirst, Rank{rank}});
      handle(RankReported{kFirst, Rank{rank}, 10});
    }
  }
};

TEST(RunControllerAttach, RunsOnOnceAllSupervisorsHaveAnswered) {
  Taken d;
  EXPECT_EQ(d.run.state(), S::Attaching);
  d.attach(kNodeA);
  EXPECT_EQ(d.run.state(), S::Attaching);
  EXPECT_EQ(d.handle(node_up(kNodeB, {kFirst})), Actions{});
  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}),
            (Actions{changed(S::Attaching, S::Running, T::GroupFound, kFirst)}));
  EXPECT_EQ(d.run.attempt(), kFirst);
  EXPECT_EQ(d.run.world_size(), 2);
}

TEST(RunControllerAttach, TheGroupEndsAsIfNothingHadHappened) {
  Taken d;
  d.attach_both();
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(d.run.state(), S::Finished);
  EXPECT_EQ(only<RunEnded>(actions).size(), 1U);
}

TEST(RunControllerAttach, ASupervisorThatIsGoneFailsTheGroup) {
  Taken d;
  d.attach(kNodeA);
  const auto stops = only<StopGroup>(d.handle(node_up(kNodeB)));
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].node, kNodeA);
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunControllerAttach, SupervisorsThatEndedWithoutALauncherAreNoFailure) {
  Taken d(with_living(), 0);
  d.handle(node_up(kNodeA));
  const Actions actions = d.handle(node_up(kNodeB));
  EXPECT_FALSE(only<AttemptEnded>(actions).at(0).failed);
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunControllerAttach, ANodeThatStaysAwayFailsTheGroup) {
  Taken d;
  d.attach(kNodeA);
  d.handle(NodeDown{kNodeB, "no heartbeat for 10 s"}, seconds(10));
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(RunControllerAttach, AGroupThatWasNotStartedWholeBeginsAgainAndNoFailureIsCounted) {
  Taken d(with_living(), 0);
  d.attach(kNodeA);
  d.attach(kNodeB, false);
  EXPECT_EQ(d.run.state(), S::TearingDown);
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.restarts(), 2);
}

TEST(RunControllerAttach, AWorkerThatDiedMeanwhileIsAFailure) {
  Taken d(with_living(), 0);
  d.attach(kNodeA);
  d.handle(RankExited{kFirst, Rank{0}, killed(SIGKILL)});
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(RunControllerAttach, CheckpointsGoOnWhereTheJournalEnds) {
  Taken d;
  d.attach_both();
  // Of the last one the commit had succeeded, and not all ranks had heard of it.
  EXPECT_EQ(d.handle(staged(kFirst, 0, 5, 10)),
            (Actions{TellCheckpoint{kFirst, kNodeA, 5, "checkpoint_3", ""}}));
  d.handle(staged(kFirst, 0, 6, 20));
  const auto commits = only<Commit>(d.handle(staged(kFirst, 1, 6, 20)));
  ASSERT_EQ(commits.size(), 1U);
  EXPECT_EQ(commits[0].index, 6U);
}

// Rank 0 waits for what became of them; rank 1 has heard it, and hands in no part again.
TEST(RunControllerAttach, CheckpointsThatTheEarlierLauncherGaveUpAreToldToTheOthers) {
  Taken d;
  d.attach(kNodeA);
  d.handle(staged(kFirst, 0, 6, 20));
  d.handle(node_up(kNodeB, {kFirst}));

  const Actions actions = d.handle(SupervisorAttached{kFirst, kNodeB, true, {}, 7});

  const std::string why = "an earlier launcher gave it up";
  EXPECT_EQ(only<TellCheckpoint>(actions),
            (std::vector{TellCheckpoint{kFirst, kNodeA, 6, "", why},
                         TellCheckpoint{kFirst, kNodeB, 6, "", why}}));
  EXPECT_EQ(d.handle(staged(kFirst, 0, 7, 30)),
            (Actions{TellCheckpoint{kFirst, kNodeA, 7, "", "it was settled before"}}));
  d.handle(staged(kFirst, 0, 8, 40));
  EXPECT_EQ(only<Commit>(d.handle(staged(kFirst, 1, 8, 40))).size(), 1U);
}

TEST(RunControllerAttach, ACallThatTheEarlierLauncherAnsweredIsAnsweredToTheOthers) {
  Taken d;
  d.attach_both();
  EXPECT_EQ(d.handle(CollectiveJoined{kFirst, Rank{1}, 12, "barrier", "b"}), Actions{});
  EXPECT_EQ(d.handle(CollectiveSettled{kFirst, 12, {"a", "b"}, ""}),
            (Actions{SendCollective{kFirst, kNodeA, 12, std::vector<std::string>{"a", "b"}, ""},
                     SendCollective{kFirst, kNodeB, 12, std::vector<std::string>{"a", "b"}, ""}}));
  EXPECT_EQ(d.handle(CollectiveSettled{kFirst, 12, {"a", "b"}, ""}), Actions{});
}

TEST(RunControllerAttach, RanksThatHadBeenAskedToStopFormAnew) {
  Taken d(with_living(true));
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(node_up(kNodeB, {kFirst}));
  for (int rank : {0, 1}) {
    d.handle(RankJoined{kFirst, Rank{rank}});
    d.handle(RankPaused{kFirst, Rank{rank}, 10, 5});
  }
  d.handle(SupervisorAttached{kFirst, kNodeA});
  const auto pauses = only<Pause>(d.handle(SupervisorAttached{kFirst, kNodeB}));
  EXPECT_EQ(d.run.state(), S::Pausing);
  ASSERT_EQ(pauses.size(), 4U);  // pause, and at once advance: all are paused
  for (int rank : {0, 1}) d.handle(RankPaused{kFirst, Rank{rank}, 10, 5, true});
  for (int rank : {0, 1}) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunControllerAttach, RanksWhoseReportsAreAllAcknowledgedCanStillMeet) {
  Taken d;
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(node_up(kNodeB, {kFirst}));
  d.handle(SupervisorAttached{kFirst, kNodeA, true, {{Rank{0}, true, 10}}});
  d.handle(SupervisorAttached{kFirst, kNodeB, true, {{Rank{1}, true, 10}}});
  EXPECT_EQ(only<Pause>(d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"})).size(), 2U);
  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerAttach, AStopWaitsForTheSupervisorsThatHaveNotAnswered) {
  Taken d;
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(node_up(kNodeB, {kFirst}));
  d.handle(SupervisorAttached{kFirst, kNodeA, true, {{Rank{0}, true, 10}}});
  EXPECT_EQ(d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"}), Actions{});
  EXPECT_EQ(d.run.state(), S::Attaching);
  d.handle(SupervisorAttached{kFirst, kNodeB, true, {{Rank{1}, true, 10}}});
  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerAttach, ASecondStopIsObeyedAtOnce) {
  Taken d;
  d.attach(kNodeA);
  d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"});
  d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"});
  EXPECT_EQ(d.run.state(), S::TearingDown);
  EXPECT_EQ(only<StopGroup>(d.handle(SupervisorAttached{kFirst, kNodeB})).size(), 1U);
}

// ---- growing

JobSpec elastic(int min, int max, int max_failures = 0) {
  JobSpec spec = two_workers(max_failures);
  spec.scaling_config.num_workers = {min, max};
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  return spec;
}

struct Elastic : Driven {
  explicit Elastic(int max = 3, int max_failures = 0)
      : Driven(elastic(1, max, max_failures), {.checkpoint = {}, .expected_nodes = 2}) {
    running();
  }
  /// All ranks of the attempt leave in good order.
  void leave(Attempt attempt, int ranks, std::uint64_t ordinal) {
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankPaused{attempt, Rank{rank}, ordinal, 1}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankPaused{attempt, Rank{rank}, ordinal, 1, true}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank) handle(staged(attempt, rank, 1, ordinal), seconds(4));
    handle(CommitFinished{attempt, 1, checkpoint(1), ""}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankExited{attempt, Rank{rank}, exited(0)}, seconds(4));
    for (int node = 0; node < ranks; ++node)
      handle(NodeGroupGone{attempt, NodeId{node}}, seconds(4));
  }
};

TEST(RunControllerGrow, AsksTheRanksToMeetAtACheckpointOnceTheRoomHasSettled) {
  Elastic d;
  EXPECT_EQ(d.handle(node_up(kNodeC)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + kGrowSettle);
  const std::string reason = "there is room for 3 workers instead of 2";
  EXPECT_EQ(d.handle(Tick{}, kGrowSettle),
            (Actions{changed(S::Running, S::Pausing, T::PauseAsked, kFirst, reason),
                     Pause{kFirst, kNodeA, Pause::Step::Pause, 0, reason, true},
                     Pause{kFirst, kNodeB, Pause::Step::Pause, 0, reason, true}}));
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);  // a checkpoint may be far away
}

TEST(RunControllerGrow, TheLargerGroupBeginsFromTheCheckpointAndNoFailureIsCounted) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowSettle);
  d.leave(kFirst, 2, 12);
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.world_size(), 3);
  EXPECT_EQ(d.run.restarts(), 1);
  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

TEST(RunControllerGrow, RanksThatMeetAtDifferentCheckpointsGoOnToTheLater) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowSettle);
  d.handle(RankPaused{kFirst, Rank{0}, 10, 1}, seconds(4));
  const auto pauses = only<Pause>(d.handle(Tick{}, seconds(4) + kGatherPause));
  ASSERT_EQ(pauses.size(), 2U);  // rank 1 was past its checkpoint, and waits for rank 0 in its step
  EXPECT_EQ(pauses[0].step, Pause::Step::Advance);
  EXPECT_TRUE(pauses[0].at_checkpoint);
  d.handle(RankPaused{kFirst, Rank{0}, 20, 2, true}, seconds(6));
  d.handle(RankPaused{kFirst, Rank{1}, 20, 2, true}, seconds(6));
  d.handle(staged(kFirst, 0, 2, 20), seconds(6));
  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerGrow, AGroupThatComesToItsEndMeanwhileHasFinished) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowSettle);
  for (int rank : {0, 1}) d.handle(RankExited{kFirst, Rank{rank}, exited(0)}, seconds(4));
  d.handle(NodeGroupGone{kFirst, kNodeA}, seconds(4));
  d.handle(NodeGroupGone{kFirst, kNodeB}, seconds(4));
  EXPECT_EQ(d.run.state(), S::Finished);
}

TEST(RunControllerGrow, CtrlCDoesNotWaitForTheCheckpoint) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowSettle);
  const auto pauses = only<Pause>(d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"}, seconds(4)));
  ASSERT_EQ(pauses.size(), 2U);
  EXPECT_FALSE(pauses[0].at_checkpoint);
  ASSERT_TRUE(d.run.next_deadline());
}

TEST(RunControllerGrow, DoesNotGrowPastTheMaximumNorWithAFixedNumber) {
  Elastic full(2);
  full.handle(node_up(kNodeC));
  EXPECT_EQ(full.run.next_deadline(), std::nullopt);
  Driven fixed;
  fixed.running();
  fixed.handle(node_up(kNodeC));
  EXPECT_EQ(fixed.run.next_deadline(), std::nullopt);
}

TEST(RunControllerGrow, ALostNodeShrinksTheGroupAndCountsAsAPreemption) {
  Elastic d(2);
  d.handle(NodeDown{kNodeB, "no heartbeat for 10 s"});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.world_size(), 1);
  EXPECT_EQ(only<AttemptEnded>(actions).at(0).failure, FailureKind::NodeLost);
}

// ---- draining

TEST(RunControllerDrain, TheRanksStopInGoodOrderAndTheNodeIsNotUsedAgain) {
  Elastic d(2);
  const auto pauses = only<Pause>(d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"}));
  ASSERT_EQ(pauses.size(), 2U);
  EXPECT_FALSE(pauses[0].at_checkpoint);
  EXPECT_EQ(pauses[0].reason, "node node-b is being drained: SIGTERM");
  EXPECT_EQ(d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"}), Actions{});
  d.leave(kFirst, 2, 12);
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.world_size(), 1);
}

TEST(RunControllerDrain, AFixedGroupMovesToTheOthers) {
  Driven d(two_workers(0));
  d.running();
  d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});
  for (int rank : {0, 1}) d.handle(RankPaused{kFirst, Rank{rank}, 1, 0});
  for (int rank : {0, 1}) d.handle(RankPaused{kFirst, Rank{rank}, 1, 0, true});
  for (int rank : {0, 1}) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  // max_failures is 0, and it was no failure
  EXPECT_EQ(d.run.world_size(), 2);
  EXPECT_EQ(d.run.attempt(), kSecond);
}

TEST(RunControllerDrain, WorkersThatDieThereAreNoFailure) {
  Elastic d(2);
  d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});
  d.handle(RankExited{kFirst, Rank{1}, killed(SIGKILL, true)});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(only<AttemptEnded>(actions).at(0).failure, FailureKind::Preempted);
  EXPECT_EQ(d.run.world_size(), 1);
}

// ---- nodes that fail

TEST(RunControllerNodes, ANodeThatFailsAgainAndAgainIsSetAside) {
  Driven d(elastic(1, 2, kUnlimited), {.checkpoint = {}, .expected_nodes = 3});
  d.nodes();
  d.handle(node_up(kNodeC));
  Duration at{};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Attempt attempt{i};
    EXPECT_EQ(d.run.attempt(), attempt);
    d.handle(RankJoined{attempt, Rank{1}}, at);
    d.handle(RankReported{attempt, Rank{1}, i + 1}, at);
    d.handle(RankExited{attempt, Rank{1}, killed(SIGBUS)}, at);
    d.handle(NodeGroupGone{attempt, kNodeA}, at);
    const Actions actions = d.handle(NodeGroupGone{attempt, kNodeB}, at);
    const auto notes = only<Note>(actions);
    const bool named = std::any_of(notes.begin(), notes.end(), [](const Note& note) {
      return note.text.starts_with("node node-b failed 3 times in a row");
    });
    EXPECT_EQ(named, i == 2);
    at += seconds(100);
    d.handle(Tick{}, at);
  }
  EXPECT_EQ(d.run.world_size(), 2);
  EXPECT_FALSE(d.handle(NodeGroupGone{Attempt{3}, kNodeB}, at).size() > 0);
  EXPECT_EQ(only<Prepare>(d.handle(node_up(kNodeC), at)).size(), 1U);  // it is in the new group
}

/// A group of two, where three nodes are fit, and whose rank 1 dies in attempt after attempt.
struct Failing : Driven {
  explicit Failing(JobSpec spec, std::size_t nodes_there = 3)
      : Driven(std::move(spec), {.checkpoint = {}, .expected_nodes = nodes_there}) {
    nodes();
    if (nodes_there == 3) handle(node_up(kNodeC));
  }
  /// Both ranks report `report` times, of which rank 1's last may be lost; then rank 1 dies.
  Actions die(std::uint32_t number, std::uint64_t report, NodeId first, NodeId second,
              std::uint64_t lost = 0) {
    const Attempt attempt{number};
    EXPECT_EQ(run.attempt(), attempt);
    for (int rank : {0, 1}) handle(RankJoined{attempt, Rank{rank}}, at);
    handle(RankReported{attempt, Rank{0}, report}, at);
    if (report > lost) handle(RankReported{attempt, Rank{1}, report - lost}, at);
    handle(RankExited{attempt, Rank{1}, killed(SIGBUS)}, at);
    return leave(attempt, first, second);
  }
  Actions leave(Attempt attempt, NodeId first, NodeId second) {
    handle(NodeGroupGone{attempt, first}, at);
    Actions actions = handle(NodeGroupGone{attempt, second}, at);
    at += seconds(100);
    handle(Tick{}, at);
    return actions;
  }
  Duration at{};
};

TEST(RunControllerNodes, ANodeIsSetAsideRatherThanTheStepBlamed) {
  Failing d(two_workers(kUnlimited));
  for (std::uint32_t i = 0; i < 3; ++i) d.die(i, 41, kNodeA, kNodeB);
  EXPECT_EQ(d.run.attempt(), Attempt{3});

  const Actions actions = d.die(3, 41, kNodeA, kNodeC);

  EXPECT_EQ(only<RunEnded>(actions).at(0).reason,
            "rank 1 died after its report 41 4 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(RunControllerNodes, WithoutRoomElsewhereACrashLoopEndsTheRun) {
  Failing d(elastic(2, 2, kUnlimited), 2);
  for (std::uint32_t i = 0; i < 2; ++i) d.die(i, 41, kNodeA, kNodeB);

  const Actions actions = d.die(2, 41, kNodeA, kNodeB);

  EXPECT_EQ(only<RunEnded>(actions).at(0).reason,
            "rank 1 died after its report 41 3 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(RunControllerNodes, WhatIsKnownOfTheGroupTellsThatAFirstReportWasMade) {
  Failing d(elastic(2, 2, kUnlimited), 2);
  for (std::uint32_t i = 0; i < 2; ++i) d.die(i, 1, kNodeA, kNodeB, /*lost=*/1);

  EXPECT_EQ(only<RunEnded>(d.die(2, 1, kNodeA, kNodeB, 1)).at(0).reason,
            "rank 1 died at its first report 3 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(RunControllerNodes, ASupervisorThatDiesAtTheSameReportIsACrashLoop) {
  Failing d(elastic(2, 2, kUnlimited), 2);
  Actions actions;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Attempt attempt{i};
    for (int rank : {0, 1}) {
      d.handle(RankJoined{attempt, Rank{rank}}, d.at);
      d.handle(RankReported{attempt, Rank{rank}, 41}, d.at);
    }
    d.handle(SupervisorLost{attempt, kNodeB, "killed by SIGKILL"}, d.at);
    actions = d.leave(attempt, kNodeB, kNodeA);
  }
  EXPECT_EQ(only<RunEnded>(actions).at(0).reason,
            "rank 1 died after its report 41 3 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(RunControllerNodes, ProgramsThatNeverReportAreInNoCrashLoop) {
  Failing d(elastic(2, 2, kUnlimited), 2);
  for (std::uint32_t i = 0; i < 6; ++i) {
    d.handle(RankExited{Attempt{i}, Rank{1}, killed(SIGBUS)}, d.at);
    d.leave(Attempt{i}, kNodeA, kNodeB);
  }
  EXPECT_EQ(d.run.attempt(), Attempt{6});
}

TEST(RunControllerNodes, AGroupGrowsAgainWhenItsNodeIsNoLongerSetAside) {
  Failing d(elastic(1, 2, kUnlimited), 2);
  for (std::uint32_t i = 0; i < 3; ++i) d.die(i, 10 * i + 1, kNodeA, kNodeB);
  const Attempt fourth{3};
  ASSERT_EQ(d.run.world_size(), 1);
  d.handle(AttemptPrepared{fourth, kNodeA, 41000}, d.at);
  d.handle(AttemptStarted{fourth, kNodeA, {{Rank{0}, 100}}}, d.at);
  d.handle(RankJoined{fourth, Rank{0}}, d.at);
  d.handle(RankReported{fourth, Rank{0}, 1}, d.at + kGrowSettle);
  const auto forgiven = d.run.next_deadline();
  EXPECT_EQ(forgiven, kStart + seconds(200) + kNodeCooldown);

  d.handle(Tick{}, *forgiven - kStart);
  d.handle(Tick{}, *forgiven - kStart + kGrowSettle);

  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunController, WorkersThatAnEarlierLauncherStoppedHaveNotFailed) {
  Taken taken(with_ending());
  taken.attach(kNodeA);
  taken.handle(
      RankExited{kFirst, Rank{0}, {.signaled = true, .status = 15, .stop_requested = true}});
  taken.handle(NodeGroupGone{kFirst, kNodeA});
  taken.attach(kNodeB);
  taken.handle(
      RankExited{kFirst, Rank{1}, {.signaled = true, .status = 15, .stop_requested = true}});

  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_NE(taken.run.state(), RunState::Errored);
  EXPECT_EQ(taken.run.restarts(), 2);
}

// That launcher died before its journal knew of it: as far as it says, they run.
TEST(RunController, WorkersThatAnEarlierLauncherStoppedInItsLastMomentHaveNotFailed) {
  Taken taken(with_living(), 0);
  taken.attach(kNodeA);
  taken.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
  EXPECT_EQ(taken.run.state(), RunState::Attaching);

  taken.attach(kNodeB);
  EXPECT_EQ(taken.run.state(), RunState::TearingDown);
  taken.handle(RankExited{kFirst, Rank{1}, killed(SIGTERM, true)});
  taken.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(only<AttemptEnded>(actions).at(0).cause, kStoppedBefore);
  EXPECT_EQ(taken.run.attempt(), kSecond);
}

TEST(RunController, RanksThatWaitForOneThatWasStoppedAreNotToldOfAnError) {
  Taken taken(with_ending());
  taken.attach(kNodeA);
  taken.handle(CollectiveJoined{kFirst, Rank{0}, 1, "barrier", "a"});

  EXPECT_EQ(taken.handle(RankExited{kFirst, Rank{1}, killed(SIGTERM, true)}), Actions{});
}

// The earlier launcher was stopping them, and its error has not reached all: they would fail of it.
TEST(RunController, ErrorsOfAnEarlierLauncherAreHeldBackUntilItIsKnownThatTheGroupGoesOn) {
  Taken taken;
  taken.attach(kNodeA);
  EXPECT_EQ(taken.handle(CollectiveSettled{kFirst, 1, {}, "rank 1 has ended"}), Actions{});
  EXPECT_EQ(taken.handle(CollectiveJoined{kFirst, Rank{0}, 1, "barrier", "a"}), Actions{});
  taken.handle(node_up(kNodeB, {kFirst}));

  const Actions actions = taken.handle(SupervisorAttached{kFirst, kNodeB});

  EXPECT_FALSE(only<SendCollective>(actions).empty());
  EXPECT_EQ(taken.run.state(), RunState::Running);
}

TEST(RunController, TheOrderOfAnEarlierLauncherIsCarriedOutOnAllNodes) {
  Taken taken(with_living(), 0);
  taken.attach_both();
  EXPECT_EQ(taken.run.state(), RunState::Running);

  const auto stops =
      only<StopGroup>(taken.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)}));

  ASSERT_EQ(stops.size(), 2U);
  EXPECT_EQ(stops[1].reason, kStoppedBefore);
  taken.handle(RankExited{kFirst, Rank{1}, killed(SIGTERM, true)});
  taken.handle(NodeGroupGone{kFirst, kNodeA});
  taken.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_NE(taken.run.state(), RunState::Errored);
}

TEST(RunController, TheFirstFailureIsStillTheCauseUnderALaterLauncher) {
  Taken taken(with_ending(), 0);
  taken.attach(kNodeA);
  taken.handle(
      RankExited{kFirst, Rank{0}, {.signaled = true, .status = 15, .stop_requested = true}});
  taken.handle(NodeGroupGone{kFirst, kNodeA});
  taken.attach(kNodeB);
  taken.handle(RankExited{kFirst, Rank{1}, {.signaled = true, .status = 11}});

  const Actions actions = taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(taken.run.state(), RunState::Errored);
  const auto ended = std::find_if(actions.begin(), actions.end(), [](const RunAction& action) {
    return std::holds_alternative<AttemptEnded>(action);
  });
  ASSERT_NE(ended, actions.end());
  EXPECT_EQ(std::get<AttemptEnded>(*ended).root_rank, Rank{1});
}

TEST(RunController, RanksThatHadAllEndedUnderAnEarlierLauncherHaveFinished) {
  Taken taken(with_ending());
  for (const auto& [node, rank] : {std::pair(kNodeA, 0), std::pair(kNodeB, 1)}) {
    taken.attach(node);
    taken.handle(RankExited{kFirst, Rank{rank}, {}});
  }

  taken.handle(NodeGroupGone{kFirst, kNodeA});
  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(taken.run.state(), RunState::Finished);
}

TEST(RunController, ANumberThatNoJournalKnowsIsNotGivenAgainAfterAnAdoptedAttempt) {
  Taken taken;
  taken.handle(node_up(kNodeA, {kFirst, kSecond}));
  taken.handle(SupervisorAttached{kFirst, kNodeA, false});
  taken.attach(kNodeB);
  taken.handle(NodeGroupGone{kFirst, kNodeA});

  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(taken.run.attempt(), Attempt{2});
}

TEST(RunController, RanksThatAnEarlierLauncherStoppedHaveNotComeToTheirEnd) {
  Taken taken;
  taken.attach_both();
  taken.handle(RankPaused{kFirst, Rank{0}, 10});
  taken.handle(RankExited{kFirst, Rank{0}, {}});
  taken.handle(RankExited{kFirst, Rank{1}, {}});
  taken.handle(NodeGroupGone{kFirst, kNodeA});

  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_NE(taken.run.state(), RunState::Finished);
}

}  // namespace
}  // namespace train
