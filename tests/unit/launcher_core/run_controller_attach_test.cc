// RunController takes over an attempt that an earlier launcher began, as it finds it.
#include <algorithm>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;

RunStart with_living(bool pausing = false) {
  RunStart start{.first_attempt = kSecond, .checkpoint = checkpoint(3), .expected_nodes = 2};
  start.living = LivingAttempt{.id = kFirst,
                               .generation = Generation{1},
                               .placement = both(),
                               .node_names = {"node-a", "node-b"},
                               .restored = {},
                               .restart_count = 1,
                               .pausing = pausing,
                               .resolved_seq = 5,
                               .resolved_path = "checkpoint_3"};
  return start;
}

TEST(RunController, ARunThatHadFinishedOnlyEnds) {
  RunStart start{.first_attempt = kSecond, .expected_nodes = 2};
  start.ended = RunEnded{S::Finished, "", {}};
  Driven driven(two_workers(1), std::move(start));

  EXPECT_EQ(driven.handle(node_up(kNodeA, {kFirst})), (Actions{Release{kFirst, kNodeA}}));
  const Actions actions = driven.handle(node_up(kNodeB));

  EXPECT_EQ(driven.run.state(), RunState::Finished);
  EXPECT_EQ(std::get<RunEnded>(actions.back()).outcome, RunState::Finished);
}

TEST(RunController, ARunThatHadBeenGivenUpOrStoppedOnlyEndsInTheSameWay) {
  for (const RunEnded& ended : {RunEnded{S::Errored, "no restart: max_failures is 0", {}},
                                RunEnded{S::Stopped, "SIGTERM", StopKind::Terminate}}) {
    RunStart start{.first_attempt = kSecond, .expected_nodes = 2};
    start.ended = ended;
    Driven driven(two_workers(1), std::move(start));

    EXPECT_EQ(driven.handle(node_up(kNodeA, {kFirst})), (Actions{Release{kFirst, kNodeA}}));
    const Actions actions = driven.handle(node_up(kNodeB));

    EXPECT_EQ(actions.back(), RunAction(ended));
  }
}

/// A start after a launcher that died while it stopped the workers, because rank 1 had failed.
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

TEST(RunControllerAttach, NodesKeepTheRoomOfTheWorkersThatAreThere) {
  Taken d;
  const auto told = d.room(node_up(kNodeB, {kFirst}));
  EXPECT_EQ(told, (std::vector<KeepRoom>{{kNodeB, {.placed = true, .begun = true}, 2, 1}}));
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

TEST(RunControllerAttach, WhatARefusalSaidToTheEarlierLauncherEndsNoRun) {
  Taken d(with_living(), 0);
  d.attach(kNodeA);
  d.handle(node_up(kNodeB, {kFirst}));
  const Error gone{Errc::InvalidArgument, "the mark of a launcher that is gone is not there"};

  d.handle(StartRefused{kFirst, kNodeB, Rank{1}, gone});

  EXPECT_EQ(d.run.state(), S::TearingDown);
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.state(), S::Preparing);
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
  // The last checkpoint was committed, but not all ranks had heard of it.
  EXPECT_EQ(d.handle(staged(kFirst, 0, 5, 10)),
            (Actions{TellCheckpoint{kFirst, kNodeA, 5, "checkpoint_3", ""}}));
  d.handle(staged(kFirst, 0, 6, 20));
  const auto commits = only<Commit>(d.handle(staged(kFirst, 1, 6, 20)));
  ASSERT_EQ(commits.size(), 1U);
  EXPECT_EQ(commits[0].checkpoint_seq, 6U);
}

// Rank 0 waits for their outcome; rank 1 has heard it, and does not hand over its shards again.
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
            (Actions{TellCheckpoint{kFirst, kNodeA, 7, "", "it was resolved before"}}));
  d.handle(staged(kFirst, 0, 8, 40));
  EXPECT_EQ(only<Commit>(d.handle(staged(kFirst, 1, 8, 40))).size(), 1U);
}

TEST(RunControllerAttach, ACallThatTheEarlierLauncherAnsweredIsAnsweredToTheOthers) {
  Taken d;
  d.attach_both();
  EXPECT_EQ(d.handle(CollectiveJoined{kFirst, Rank{1}, 12, "barrier", "b"}), Actions{});
  EXPECT_EQ(d.handle(CollectiveResolved{kFirst, 12, {"a", "b"}, ""}),
            (Actions{SendCollective{kFirst, kNodeA, 12, std::vector<std::string>{"a", "b"}, ""},
                     SendCollective{kFirst, kNodeB, 12, std::vector<std::string>{"a", "b"}, ""}}));
  EXPECT_EQ(d.handle(CollectiveResolved{kFirst, 12, {"a", "b"}, ""}), Actions{});
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
  ASSERT_EQ(pauses.size(), 4U);  // pause, then advance immediately: all are paused
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

TEST(RunControllerAttach, WorkersThatWereBeingStoppedAndStillRunAreStopped) {
  Taken d(with_ending());
  d.attach(kNodeA);
  d.handle(node_up(kNodeB, {kFirst}));

  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}),
            (Actions{changed(S::Attaching, S::TearingDown, T::GroupEnding, kFirst, kStoppedBefore),
                     StopGroup{kFirst, kNodeA, kSurvivorGrace, kStoppedBefore},
                     StopGroup{kFirst, kNodeB, kSurvivorGrace, kStoppedBefore}}));
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

// That launcher died before its journal knew of the stop: according to the journal, they run.
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

// The earlier launcher was stopping the ranks, and its error would make the others fail.
TEST(RunController, ErrorsOfAnEarlierLauncherAreHeldBackUntilItIsKnownThatTheGroupGoesOn) {
  Taken taken;
  taken.attach(kNodeA);
  EXPECT_EQ(taken.handle(CollectiveResolved{kFirst, 1, {}, "rank 1 has ended"}), Actions{});
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

// It had asked them to stop because a stop condition was met, and died before all had ended.
TEST(RunController, AStopConditionThatAnEarlierLauncherSawMetStillEndsTheRunWell) {
  RunStart start = with_ending();
  start.living->stop_condition = "loss is 0.1";
  Taken taken(start, 0);
  for (const auto& [node, rank] : {std::pair(kNodeA, 0), std::pair(kNodeB, 1)}) {
    taken.attach(node);
    taken.handle(RankExited{kFirst, Rank{rank}, killed(SIGTERM, true)});
  }
  taken.handle(NodeGroupGone{kFirst, kNodeA});

  const Actions actions = taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(taken.run.state(), RunState::Finished);
  EXPECT_EQ(only<AttemptEnded>(actions).at(0).cause, "loss is 0.1");
}

// The journal names the condition, whatever the reason for the change of state.
TEST(RunController, AStopConditionThatIsMetBeforeAllNodesAreBackIsNotForgotten) {
  Taken taken(with_living(), 0);
  taken.attach(kNodeA);
  taken.handle(StopAsked{StopKind::StopCondition, "loss is 0.1"});

  taken.handle(node_up(kNodeB, {kFirst}));
  const auto changes = only<StateChanged>(taken.handle(SupervisorAttached{kFirst, kNodeB, true}));

  ASSERT_FALSE(changes.empty());
  for (const StateChanged& change : changes) EXPECT_EQ(change.stop_condition, "loss is 0.1");
}

TEST(RunController, RanksThatAnEarlierLauncherPausedForAStopConditionAreNotStartedAgain) {
  RunStart start = with_living(true);
  start.living->stop_condition = "loss is 0.1";
  Taken taken(start, 0);
  taken.attach_both();
  for (int rank : {0, 1}) taken.handle(RankExited{kFirst, Rank{rank}, killed(SIGTERM, true)});
  taken.handle(NodeGroupGone{kFirst, kNodeA});

  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(taken.run.state(), RunState::Finished);
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
  for (int rank : {0, 1}) taken.handle(RankExited{kFirst, Rank{rank}, left_when_told()});
  taken.handle(NodeGroupGone{kFirst, kNodeA});

  taken.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_NE(taken.run.state(), RunState::Finished);
}

// Neither its journal nor any pause tells of it: they left their loops because of should_stop().
TEST(RunControllerAttach, RanksThatWereToldToLeaveHaveNotComeToTheirEnd) {
  for (const bool attaching : {true, false}) {
    Taken taken;
    if (!attaching) taken.attach_both();
    for (int rank : {0, 1}) taken.handle(RankExited{kFirst, Rank{rank}, left_when_told()});
    if (attaching) taken.attach_both();
    taken.handle(NodeGroupGone{kFirst, kNodeA});
    const Actions actions = taken.handle(NodeGroupGone{kFirst, kNodeB});

    EXPECT_FALSE(only<AttemptEnded>(actions).at(0).failed);
    EXPECT_EQ(taken.run.attempt(), kSecond);
  }
}

// It was to grow, or a node to drain, when its ranks came to their end. The launcher died while the
// last commit was awaited, or before its journal knew of their end.
TEST(RunControllerAttach, AGroupThatCameToItsEndWhileItWasToPauseIsNotTrainedAgain) {
  for (const bool ending : {true, false}) {
    RunStart start = with_living(true);
    start.living->ending = ending;
    Taken taken(std::move(start));
    for (const auto& [node, rank] : {std::pair(kNodeA, 0), std::pair(kNodeB, 1)}) {
      taken.attach(node);
      taken.handle(RankExited{kFirst, Rank{rank}, exited(0)});
      taken.handle(NodeGroupGone{kFirst, node});
    }

    EXPECT_EQ(taken.run.state(), RunState::Finished) << ending;
  }
}

// The earlier launcher died before its journal knew that it had asked them to.
TEST(RunControllerAttach, APauseThatIsHeardOfBeforeAllNodesAreFoundIsContinued) {
  Taken d;
  d.attach(kNodeA);
  d.handle(RankJoined{kFirst, Rank{0}});
  d.handle(RankPaused{kFirst, Rank{0}, 10, 5});
  d.handle(node_up(kNodeB, {kFirst}));

  const Actions found = d.handle(SupervisorAttached{kFirst, kNodeB, true, {{Rank{1}, true, 10}}});

  EXPECT_EQ(only<Pause>(found).size(), 2U);
  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerAttach, ADrainThatIsHeardOfBeforeAllNodesAreFoundIsNoReasonToLoseWork) {
  Taken d;
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(SupervisorAttached{kFirst, kNodeA, true, {{Rank{0}, true, 10}}});
  EXPECT_EQ(only<StopGroup>(d.handle(NodeDrain{kNodeA, seconds(60), "SIGTERM"})).size(), 0U);
  d.handle(node_up(kNodeB, {kFirst}), seconds(5));

  const Actions found =
      d.handle(SupervisorAttached{kFirst, kNodeB, true, {{Rank{1}, true, 10}}}, seconds(5));

  EXPECT_EQ(only<Pause>(found).size(), 2U);
  EXPECT_EQ(d.run.state(), S::Pausing);
  d.handle(Tick{}, seconds(44));
  EXPECT_EQ(d.run.state(), S::Pausing);
  d.handle(Tick{}, seconds(45));
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(RunControllerAttach, ADrainDoesNotWaitForNodesThatDoNotAnswer) {
  Taken d;
  d.attach(kNodeA);
  d.handle(NodeDrain{kNodeA, seconds(40), "SIGTERM"});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(30));

  d.handle(Tick{}, seconds(29));
  EXPECT_EQ(d.run.state(), S::Attaching);
  EXPECT_EQ(only<StopGroup>(d.handle(Tick{}, seconds(30))).size(), 2U);
  for (const NodeId node : {kNodeA, kNodeB}) {
    d.attach(node);
    d.handle(NodeGroupGone{kFirst, node}, seconds(30));
  }

  EXPECT_EQ(d.run.attempt(), kSecond);  // which counts as a preemption
}

TEST(RunControllerAttach, AStopThatIsHeardOfBeforeADrainHasNoMoreTimeThanThat) {
  Taken d;
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(node_up(kNodeB, {kFirst}));
  d.handle(SupervisorAttached{kFirst, kNodeA, true, {{Rank{0}, true, 10}}});
  d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"});
  d.handle(NodeDrain{kNodeA, seconds(4), "SIGTERM"});

  d.handle(SupervisorAttached{kFirst, kNodeB, true, {{Rank{1}, true, 10}}});

  EXPECT_EQ(d.run.state(), S::Pausing);
  d.handle(Tick{}, seconds(3));
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(RunControllerAttach, ABarrierThatTheEarlierLauncherOpenedIsProgress) {
  JobSpec spec = two_workers(1);
  spec.run_config.failure_config.max_start_failures = 0;
  for (const std::string error : {"", "rank 1 has ended"}) {
    Driven d(spec, with_living());
    for (const NodeId node : {kNodeA, kNodeB}) {
      d.handle(node_up(node, {kFirst}));
      d.handle(SupervisorAttached{kFirst, node});
    }
    d.handle(RankJoined{kFirst, Rank{0}});
    d.handle(CollectiveResolved{kFirst, 1, {"a", "b"}, error});
    d.handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)});
    d.handle(NodeGroupGone{kFirst, kNodeA});
    const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});

    EXPECT_EQ(only<AttemptEnded>(actions).at(0).failure,
              error.empty() ? FailureKind::Worker : FailureKind::Start);
  }
}

}  // namespace
}  // namespace train
