// RunController changes the group: growing, draining, and nodes that fail.
#include <algorithm>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;

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
  /// Let all ranks of the attempt leave gracefully.
  void leave(Attempt attempt, int ranks, std::uint64_t report_seq) {
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankPaused{attempt, Rank{rank}, report_seq, 1}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankPaused{attempt, Rank{rank}, report_seq, 1, true}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank)
      handle(staged(attempt, rank, 1, report_seq), seconds(4));
    handle(CommitFinished{attempt, 1, checkpoint(1), ""}, seconds(4));
    for (int rank = 0; rank < ranks; ++rank)
      handle(RankExited{attempt, Rank{rank}, exited(0)}, seconds(4));
    for (int node = 0; node < ranks; ++node)
      handle(NodeGroupGone{attempt, NodeId{node}}, seconds(4));
  }
};

TEST(RunControllerGrow, AsksTheRanksToMeetAtACheckpointOnceTheRoomIsStable) {
  Elastic d;
  EXPECT_EQ(d.handle(node_up(kNodeC)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + kGrowDelay);
  const std::string reason = "there is room for 3 workers instead of 2";
  EXPECT_EQ(d.handle(Tick{}, kGrowDelay),
            (Actions{changed(S::Running, S::Pausing, T::PauseAsked, kFirst, reason),
                     Pause{kFirst, kNodeA, PauseStep::Pause, 0, reason, true},
                     Pause{kFirst, kNodeB, PauseStep::Pause, 0, reason, true}}));
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);  // a checkpoint may be far away
}

TEST(RunControllerGrow, TheLargerGroupBeginsFromTheCheckpointAndNoFailureIsCounted) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);
  d.leave(kFirst, 2, 12);
  EXPECT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.run.world_size(), 3);
  EXPECT_EQ(d.run.restarts(), 1);
  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

TEST(RunControllerGrow, RanksThatMeetAtDifferentCheckpointsGoOnToTheLater) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);
  d.handle(RankPaused{kFirst, Rank{0}, 10, 1}, seconds(4));
  const auto pauses = only<Pause>(d.handle(Tick{}, seconds(4) + kGatherPause));
  ASSERT_EQ(pauses.size(), 2U);  // rank 1 was past its checkpoint, and waits for rank 0 in its step
  EXPECT_EQ(pauses[0].step, PauseStep::Advance);
  EXPECT_TRUE(pauses[0].at_checkpoint);
  d.handle(RankPaused{kFirst, Rank{0}, 20, 2, true}, seconds(6));
  d.handle(RankPaused{kFirst, Rank{1}, 20, 2, true}, seconds(6));
  d.handle(staged(kFirst, 0, 2, 20), seconds(6));
  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerGrow, WhereRanksPausedBeforeTheyWereToldToGoOnIsNotWhereTheyMeet) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);
  d.handle(RankPaused{kFirst, Rank{0}, 10, 1}, seconds(4));
  ASSERT_EQ(only<Pause>(d.handle(Tick{}, seconds(4) + kGatherPause)).size(), 2U);

  // Their links broke meanwhile: the supervisors resend their messages, and more that were on their
  // way.
  d.handle(RankPaused{kFirst, Rank{0}, 10, 1}, seconds(6));

  EXPECT_EQ(only<Pause>(d.handle(RankPaused{kFirst, Rank{1}, 10, 1}, seconds(6))),
            std::vector<Pause>{});
}

TEST(RunControllerGrow, TakesInANodeThatWasFoundLater) {
  Driven d(elastic(1, 3), {.checkpoint = {}, .expected_nodes = 2, .finds_nodes = true});
  d.running();

  EXPECT_EQ(d.handle(NodeFound{kNodeC}), Actions{});
  d.handle(node_up(kNodeC));
  const auto pauses = only<Pause>(d.handle(Tick{}, kGrowDelay));

  EXPECT_EQ(pauses.size(), 2U);
}

TEST(RunControllerNodes, WhileNodesMayBeFoundNoSizeIsImpossible) {
  Driven named(elastic(3, 3), {.checkpoint = {}, .expected_nodes = 2});
  named.nodes();
  EXPECT_EQ(named.run.state(), S::Errored);

  Driven found(elastic(3, 3), {.checkpoint = {}, .expected_nodes = 2, .finds_nodes = true});
  found.nodes();
  EXPECT_EQ(found.run.state(), S::Scheduling);
  found.handle(NodeFound{kNodeC});
  EXPECT_EQ(only<Prepare>(found.handle(node_up(kNodeC))).size(), 3U);
}

TEST(RunControllerNodes, AListedNodeIsWaitedForUntilItIsNotListedAnyMore) {
  Driven d(elastic(1, 3), {.checkpoint = {}, .expected_nodes = 2, .finds_nodes = true});
  d.handle(NodeFound{kNodeC});
  d.nodes();
  EXPECT_EQ(d.run.state(), S::Scheduling);

  const auto actions = d.handle(NodeVanished{kNodeC});

  EXPECT_EQ(only<Prepare>(actions).size(), 2U);
}

TEST(RunControllerNodes, ANodeThatIsDeadAndNotListedIsForgottenUntilItIsFoundAgain) {
  Driven d(elastic(1, 2), {.checkpoint = {}, .expected_nodes = 2, .finds_nodes = true});
  d.running();
  d.handle(NodeDown{kNodeB, "no heartbeat for 10 s"});
  d.handle(NodeVanished{kNodeB});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(Tick{}, kAllNodesWait);
  EXPECT_EQ(d.run.world_size(), 1);  // at once: nobody else is named
  EXPECT_EQ(d.run.attempt(), Attempt{1});
  d.handle(NodeFound{kNodeB}, kAllNodesWait);
  d.handle(node_up(kNodeB), kAllNodesWait);
  EXPECT_EQ(d.run.attempt(), Attempt{1});
}

// The others would wait for its checkpoint forever: a pause to grow has no deadline.
TEST(RunControllerGrow, DoesNotAskTheRanksWhileOneOfThemHasNotReported) {
  Driven d(elastic(1, 3), {.checkpoint = {}, .expected_nodes = 2});
  d.running(/*reporting=*/false);
  for (int rank : {0, 1}) d.handle(RankJoined{kFirst, Rank{rank}});
  d.handle(RankReported{kFirst, Rank{0}, 1});
  d.handle(node_up(kNodeC));
  EXPECT_EQ(d.handle(Tick{}, kGrowDelay), Actions{});
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);

  EXPECT_EQ(only<Pause>(d.handle(RankReported{kFirst, Rank{1}, 1}, seconds(9))).size(), 2U);
}

TEST(RunControllerGrow, AGroupThatComesToItsEndMeanwhileHasFinished) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);
  for (int rank : {0, 1}) d.handle(RankExited{kFirst, Rank{rank}, exited(0)}, seconds(4));
  d.handle(NodeGroupGone{kFirst, kNodeA}, seconds(4));
  d.handle(NodeGroupGone{kFirst, kNodeB}, seconds(4));
  EXPECT_EQ(d.run.state(), S::Finished);
}

TEST(RunControllerGrow, AGroupOfWhichARankHasEndedDoesNotGrow) {
  Elastic d;
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(node_up(kNodeC));
  EXPECT_EQ(d.handle(Tick{}, kGrowDelay), Actions{});
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);
}

TEST(RunControllerGrow, WaitsForTheFirstReportWithoutLookingAgainAndAgain) {
  Driven d(elastic(1, 3), {.checkpoint = {}, .expected_nodes = 2});
  d.running(/*reporting=*/false);
  d.handle(node_up(kNodeC));
  EXPECT_EQ(d.handle(Tick{}, kGrowDelay), Actions{});
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);
  for (int rank : {0, 1}) d.handle(RankJoined{kFirst, Rank{rank}}, seconds(9));
  EXPECT_EQ(d.handle(RankReported{kFirst, Rank{0}, 1}, seconds(9)), Actions{});
  EXPECT_EQ(only<Pause>(d.handle(RankReported{kFirst, Rank{1}, 1}, seconds(9))).size(), 2U);
}

TEST(RunControllerGrow, CtrlCDoesNotWaitForTheCheckpoint) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);
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

TEST(RunControllerDrain, OnlyANodeWithWorkersOfTheGroupMattersToIt) {
  Elastic first;
  EXPECT_EQ(only<Pause>(first.handle(NodeDrain{kNodeA, seconds(60), "SIGTERM"})).size(), 2U);
  Elastic other(2);
  other.handle(node_up(kNodeC));
  EXPECT_EQ(other.handle(NodeDrain{kNodeC, seconds(60), "SIGTERM"}),
            (Actions{Note{NoteLevel::Warning, "node node-c is being drained: SIGTERM"},
                     NodeStateChanged{"node-c", NodeState::Drained, "SIGTERM"}}));
  EXPECT_EQ(other.handle(NodeDown{kNodeC, "it left"}).size(), 1U) << "it stays drained";
  EXPECT_EQ(only<NodeStateChanged>(other.handle(node_up(kNodeC))),
            (std::vector{NodeStateChanged{"node-c", NodeState::Up, ""}}));
}

TEST(RunControllerDrain, RanksThatWereToMeetAtACheckpointToGrowDoNotWaitForIt) {
  Elastic d;
  d.handle(node_up(kNodeC));
  d.handle(Tick{}, kGrowDelay);

  const auto pauses = only<Pause>(d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"}, seconds(4)));

  const std::string reason = "node node-b is being drained: SIGTERM";
  EXPECT_EQ(pauses, (std::vector{Pause{kFirst, kNodeA, PauseStep::Pause, 0, reason},
                                 Pause{kFirst, kNodeB, PauseStep::Pause, 0, reason}}));
  EXPECT_EQ(only<StopGroup>(d.handle(Tick{}, seconds(4 + 45))).size(), 2U);
}

TEST(RunControllerDrain, AGroupOfWhichARankHasEndedGoesOnToItsEnd) {
  Driven d(two_workers(0));
  d.running();
  d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});
  WorkerEnd end = exited(0);
  end.last_report_seq = 12;
  d.handle(RankExited{kFirst, Rank{1}, end});
  const auto pauses = only<Pause>(d.handle(RankPaused{kFirst, Rank{0}, 5, 0}));
  ASSERT_EQ(pauses.size(), 2U);
  EXPECT_EQ(pauses[0].step, PauseStep::Advance);
  EXPECT_EQ(pauses[0].report_seq, UINT64_MAX);  // no rank may stop before its end
  d.handle(RankExited{kFirst, Rank{0}, end});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(d.run.state(), S::Finished);
}

TEST(RunControllerDrain, AFixedGroupMovesToTheOthers) {
  Driven d(two_workers(0));
  d.running();
  d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});
  for (int rank : {0, 1}) d.handle(RankPaused{kFirst, Rank{rank}, 1, 0});
  for (int rank : {0, 1}) d.handle(RankPaused{kFirst, Rank{rank}, 1, 0, true});
  for (int rank : {0, 1}) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});
  // max_failures is 0, but this was no failure
  const AttemptEnded ended = only<AttemptEnded>(actions).at(0);
  EXPECT_FALSE(ended.failed);
  EXPECT_EQ(ended.failure, FailureKind::Preempted);  // later launchers count it as one
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

TEST(RunControllerDrain, AnotherNodesFailureMeanwhileIsNotThatNodesFault) {
  Elastic d(2, /*max_failures=*/0);
  d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(only<AttemptEnded>(actions).at(0).failure, FailureKind::Preempted);
  EXPECT_EQ(d.run.attempt(), kSecond);
}

TEST(RunControllerDrain, OneThatHasLessTimeThanItWasSaidFirstIsHurried) {
  Elastic d(2);
  d.handle(NodeDrain{kNodeB, seconds(600), "SIGTERM"});
  EXPECT_EQ(d.handle(NodeDrain{kNodeB, seconds(40), "SIGTERM"}, milliseconds(400)), Actions{});
  d.handle(Tick{}, seconds(30));
  EXPECT_EQ(d.run.state(), S::Pausing);
  d.handle(Tick{}, seconds(31));
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

// ---- nodes that fail

TEST(RunControllerNodes, ANodeThatFailsAgainAndAgainIsQuarantined) {
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
  EXPECT_EQ(only<Prepare>(d.handle(node_up(kNodeC), at)).size(), 1U);  // the new group uses it
}

/// A group of two with three usable nodes, whose rank 1 dies in attempt after attempt.
struct Failing : Driven {
  explicit Failing(JobSpec spec, std::size_t nodes_there = 3)
      : Driven(std::move(spec), {.checkpoint = {}, .expected_nodes = nodes_there}) {
    nodes();
    if (nodes_there == 3) handle(node_up(kNodeC));
  }
  /// Let both ranks report `report` times, possibly without rank 1's last; then rank 1 dies.
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

TEST(RunControllerNodes, ANewerCheckpointClearsWhatANodeHasFailed) {
  Failing d(two_workers(kUnlimited));
  for (std::uint32_t i = 0; i < 5; ++i) {
    if (i == 2) {
      d.handle(staged(Attempt{i}, 0, 1), d.at);
      d.handle(staged(Attempt{i}, 1, 1), d.at);
      d.handle(CommitFinished{Attempt{i}, 1, checkpoint(1), ""}, d.at);
    }
    const Actions actions = d.die(i, 10 * i + 1, kNodeA, kNodeB);  // always on node-b
    const bool quarantined = i == 4;  // the third time since the checkpoint
    EXPECT_EQ(std::any_of(actions.begin(), actions.end(),
                          [](const RunAction& action) {
                            const auto* note = std::get_if<Note>(&action);
                            return note != nullptr && note->text.starts_with("node node-b failed");
                          }),
              quarantined)
        << "attempt " << i;
    const auto told = only<NodeStateChanged>(actions);
    ASSERT_EQ(told.size(), quarantined ? 1U : 0U);
    if (!quarantined) continue;
    EXPECT_EQ(told[0].node, "node-b");
    EXPECT_EQ(told[0].state, NodeState::Quarantined);
    EXPECT_TRUE(told[0].reason.starts_with("it failed 3 times in a row without a newer checkpoint"))
        << told[0].reason;
  }
}

TEST(RunControllerNodes, ANodeIsQuarantinedRatherThanTheStepBlamed) {
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

TEST(RunControllerNodes, AGroupGrowsAgainWhenItsNodeIsNoLongerQuarantined) {
  Failing d(elastic(1, 2, kUnlimited), 2);
  for (std::uint32_t i = 0; i < 3; ++i) d.die(i, 10 * i + 1, kNodeA, kNodeB);
  const Attempt fourth{3};
  ASSERT_EQ(d.run.world_size(), 1);
  d.handle(AttemptPrepared{fourth, kNodeA, 41000}, d.at);
  d.handle(AttemptStarted{fourth, kNodeA, {{Rank{0}, 100}}}, d.at);
  d.handle(RankJoined{fourth, Rank{0}}, d.at);
  d.handle(RankReported{fourth, Rank{0}, 1}, d.at + kGrowDelay);
  const auto readmitted = d.run.next_deadline();
  EXPECT_EQ(readmitted, kStart + seconds(200) + kNodeCooldown);

  d.handle(Tick{}, *readmitted - kStart);
  d.handle(Tick{}, *readmitted - kStart + kGrowDelay);

  EXPECT_EQ(d.run.state(), S::Pausing);
}

TEST(RunControllerNodes, AResumedRunEndsTheCrashLoopThatAnEarlierLauncherSawBegin) {
  const FailureLocation location{.rank = Rank{1}, .node = kNodeB, .report = 41, .checkpoint = 0};
  RunStart start{.expected_nodes = 2};
  start.failures.location = SameLocation{.first = location, .furthest = 41, .times = 2};
  Driven d(two_workers(kUnlimited), start);
  d.running();
  d.handle(RankReported{kFirst, Rank{1}, 41});
  d.handle(RankExited{kFirst, Rank{1}, killed(SIGSEGV)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(only<AttemptEnded>(actions).at(0).location, location);
  EXPECT_EQ(only<RunEnded>(actions).at(0).reason,
            "rank 1 died after its report 41 3 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(RunControllerNodes, AResumedRunLeavesOutTheNodesThatAnEarlierLauncherHadQuarantined) {
  RunStart start{.expected_nodes = 3};
  start.failures.quarantined = {kNodeB};
  Driven d(two_workers(), start);
  d.handle(node_up(kNodeA));
  EXPECT_EQ(only<NodeStateChanged>(d.handle(node_up(kNodeB))),
            (std::vector{NodeStateChanged{"node-b", NodeState::Quarantined,
                                          "it failed often under an earlier train-run"}}));

  const Actions actions = d.handle(node_up(kNodeC));

  EXPECT_EQ(only<AttemptBegun>(actions).at(0).node_names,
            (std::vector<std::string>{"node-a", "node-c"}));
}

TEST(RunControllerNodes, ASpareNodeTakesTheRanksOfTheLostOne) {
  JobSpec spec = two_workers(1);
  RunStart start{.expected_nodes = 3};
  Driven d(spec, start);
  d.nodes();
  d.handle(node_up(kNodeC));
  d.started(kFirst);
  d.handle(NodeDown{kNodeA, "silent"});

  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});

  const auto begun = only<AttemptBegun>(actions);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].node_names, (std::vector<std::string>{"node-c", "node-b"}));
}

}  // namespace
}  // namespace train
