#include "launcher/core/run_controller.h"

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;

AttemptEnded ended_well(Attempt attempt) {
  return {.attempt = attempt,
          .cause = "every rank ended with 0",
          .failed = false,
          .failure = {},
          .root_rank = {},
          .root_end = {},
          .root_node = "",
          .start_error = {},
          .collateral = 0};
}
AttemptEnded ended_by(Attempt attempt, Rank rank, WorkerEnd end, const std::string& node,
                      int collateral = 0) {
  return {.attempt = attempt,
          .cause = "",
          .failed = true,
          .failure = FailureKind::Worker,
          .node = NodeId{rank.value},  // each rank has its own node, and has reported once
          .location = FailureLocation{.rank = rank, .node = NodeId{rank.value}, .report = 1},
          .root_rank = rank,
          .root_end = std::move(end),
          .root_node = node,
          .start_error = {},
          .collateral = collateral};
}

TEST(RunController, PreparesTheNodesOnceAllHaveAnswered) {
  Driven d;
  EXPECT_EQ(d.handle(node_up(kNodeA)), Actions{});

  EXPECT_EQ(d.handle(node_up(kNodeB)),
            (Actions{changed(S::Scheduling, S::Preparing, T::NodesGranted, kFirst,
                             "attempt 0: 2 workers on 2 nodes"),
                     begun(kFirst, both(), {"node-a", "node-b"}), Prepare{kFirst, on_a(), true},
                     Prepare{kFirst, on_b(), false}}));
}

TEST(RunController, StartsWithoutANodeThatDoesNotAnswerWhenTheOthersAreEnough) {
  Driven d;
  d.handle(node_up(kNodeA));
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(3));

  const Placement on_one{
      .world_size = 2, .nodes = {{kNodeA, NodeRank{0}, Rank{0}, 2}}, .reason = "", .never = false};
  EXPECT_EQ(d.handle(Tick{}, seconds(3)),
            (Actions{changed(S::Scheduling, S::Preparing, T::NodesGranted, kFirst,
                             "attempt 0: 2 workers on 1 node"),
                     begun(kFirst, on_one, {"node-a"}), Prepare{kFirst, on_one.nodes[0], true}}));
}

TEST(RunController, StartsTheWorkersOnceAllNodesArePrepared) {
  Driven d;
  d.nodes();
  EXPECT_EQ(d.handle(AttemptPrepared{kFirst, kNodeB, 0}), Actions{});

  EXPECT_EQ(d.handle(AttemptPrepared{kFirst, kNodeA, 41000}),
            (Actions{changed(S::Preparing, S::Starting, T::AllPrepared, kFirst),
                     start_of(kFirst, kNodeA, 0), start_of(kFirst, kNodeB, 0)}));
}

TEST(RunController, FinishesWhenEveryRankEndedWell) {
  Driven d;
  d.running();
  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{0}, exited(0)}), Actions{});
  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{1}, exited(0)}),
            (Actions{changed(S::Running, S::TearingDown, T::GroupEnding, kFirst,
                             "every rank ended with 0")}));
  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeA}), Actions{});

  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeB}),
            (Actions{Release{kFirst, kNodeA}, Release{kFirst, kNodeB}, ended_well(kFirst),
                     changed(S::TearingDown, S::Finished, T::EndedWell, kFirst),
                     RunEnded{S::Finished, "", {}}}));
  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)}), Actions{});
}

TEST(RunController, KnowsWhichAttemptsAreOver) {
  Driven d(two_workers(), {.first_attempt = Attempt{3}, .checkpoint = {}, .expected_nodes = 2});
  EXPECT_TRUE(d.run.is_over(Attempt{2}));
  EXPECT_FALSE(d.run.is_over(Attempt{3}));

  d.nodes();
  ASSERT_EQ(d.run.attempt(), Attempt{3});
  EXPECT_TRUE(d.run.is_over(Attempt{2}));
  EXPECT_FALSE(d.run.is_over(Attempt{3}) || d.run.is_over(Attempt{4}));

  d.handle(StopAsked{StopKind::Command, "train-run stop"});
  d.handle(NodeGroupGone{Attempt{3}, kNodeA});
  d.handle(NodeGroupGone{Attempt{3}, kNodeB});
  ASSERT_TRUE(d.run.done());
  EXPECT_TRUE(d.run.is_over(Attempt{3}));
}

TEST(RunController, StopsTheWholeGroupWhenOneWorkerDies) {
  Driven d;
  d.running();

  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{1}, killed(SIGSEGV)}),
            (Actions{changed(S::Running, S::TearingDown, T::GroupEnding, kFirst, "rank 1 failed"),
                     StopGroup{kFirst, kNodeA, seconds(1), "rank 1 failed"},
                     StopGroup{kFirst, kNodeB, seconds(1), "rank 1 failed"}}));
}

TEST(RunController, EndsInErrorWithoutABudget) {
  Driven d;
  d.running();
  d.handle(RankExited{kFirst, Rank{1}, exited(7)});
  d.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeB}),
            (Actions{Release{kFirst, kNodeA}, Release{kFirst, kNodeB},
                     ended_by(kFirst, Rank{1}, exited(7), "node-b", 1),
                     changed(S::TearingDown, S::Errored, T::GaveUp, kFirst,
                             "no restart: max_failures is 0"),
                     RunEnded{S::Errored, "no restart: max_failures is 0", {}}}));
}

TEST(RunController, RestartsFromTheNewestCheckpointAndCountsTheRestart) {
  Driven d(two_workers(1));
  d.running();
  d.handle(staged(kFirst, 0, 1));
  EXPECT_EQ(
      d.handle(staged(kFirst, 1, 1)),
      (Actions{Commit{kFirst, 1, 1, {staged(kFirst, 0, 1).shard, staged(kFirst, 1, 1).shard}}}));
  d.handle(CommitFinished{kFirst, 1, checkpoint(1), ""});
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_EQ(
      d.handle(NodeGroupGone{kFirst, kNodeB}),
      (Actions{Release{kFirst, kNodeA}, Release{kFirst, kNodeB},
               ended_by(kFirst, Rank{0}, exited(1), "node-a"),
               changed(S::TearingDown, S::Scheduling, T::RestartDecided, kFirst, "restart 1 of 1"),
               changed(S::Scheduling, S::Preparing, T::NodesGranted, kSecond,
                       "attempt 1: 2 workers on 2 nodes"),
               begun(kSecond, both(), {"node-a", "node-b"}, 1, checkpoint(1)),
               Prepare{kSecond, on_a(), true}, Prepare{kSecond, on_b(), false}}));
  d.handle(AttemptPrepared{kSecond, kNodeA, 41000});
  EXPECT_EQ(d.handle(AttemptPrepared{kSecond, kNodeB, 0}),
            (Actions{changed(S::Preparing, S::Starting, T::AllPrepared, kSecond),
                     start_of(kSecond, kNodeA, 1, checkpoint(1)),
                     start_of(kSecond, kNodeB, 1, checkpoint(1))}));
}

TEST(RunController, CountsTheDeathsThatFollowAndKeepsTheFirstAsTheCause) {
  Driven d;
  d.running();
  d.handle(RankExited{kFirst, Rank{1}, killed(SIGSEGV)});
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(actions[2], RunAction(ended_by(kFirst, Rank{1}, killed(SIGSEGV), "node-b", 1)));
}

TEST(RunController, ANodeThatIsLostWhileTheGroupIsStoppedCountsAsADeathThatFollows) {
  Driven d;
  d.running();
  d.handle(RankExited{kFirst, Rank{1}, killed(SIGSEGV)});
  d.handle(NodeDown{kNodeA, "silent"});

  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(only<AttemptEnded>(actions),
            std::vector{ended_by(kFirst, Rank{1}, killed(SIGSEGV), "node-b", 1)});
}

TEST(RunController, AnOldAttemptsEventsChangeNothing) {
  Driven d(two_workers(1));
  d.running();
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(NodeGroupGone{kFirst, kNodeB});
  d.started(kSecond);

  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{1}, killed(SIGKILL)}), Actions{});
  EXPECT_EQ(d.handle(StartRefused{kFirst, kNodeA, Rank{0}, Error{Errc::Io, "late"}}), Actions{});
  EXPECT_EQ(d.handle(staged(kFirst, 0, 1)), Actions{});
  EXPECT_EQ(d.run.state(), S::Running);
}

TEST(RunController, ALostNodeFailsTheGroupAndTheOthersAreStopped) {
  Driven d;
  d.running();

  EXPECT_EQ(d.handle(NodeDown{kNodeB, "no heartbeat for 10.0 s"}),
            (Actions{changed(S::Running, S::TearingDown, T::GroupEnding, kFirst,
                             "node node-b is lost: no heartbeat for 10.0 s"),
                     StopGroup{kFirst, kNodeA, seconds(1),
                               "node node-b is lost: no heartbeat for 10.0 s"},
                     NodeStateChanged{"node-b", NodeState::Lost, "no heartbeat for 10.0 s"}}));
}

TEST(RunController, ANodeThatComesBackIsToldToEndWhatWasGivenUp) {
  Driven d;
  d.running();
  d.handle(NodeDown{kNodeB, "silent"});

  EXPECT_EQ(d.handle(node_up(kNodeB, {kFirst})),
            (Actions{NodeStateChanged{"node-b", NodeState::Up, ""}, Release{kFirst, kNodeB}}));
  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}), (Actions{Release{kFirst, kNodeB}}));
}

TEST(RunController, ACommandThatDoesNotExistIsNotTriedAgain) {
  Driven d(two_workers(3));
  d.nodes();
  d.prepared(kFirst);
  const Error error{Errc::NotFound, "./train does not exist", "check the path"};
  const std::string cause =
      "rank 1 could not be started on node-b: ./train does not exist (check the path)";

  EXPECT_EQ(d.handle(StartRefused{kFirst, kNodeB, Rank{1}, error}),
            (Actions{changed(S::Starting, S::TearingDown, T::GroupEnding, kFirst, cause),
                     StopGroup{kFirst, kNodeA, seconds(1), cause}}));
  EXPECT_EQ(d.handle(StartRefused{kFirst, kNodeB, Rank{1}, error}), Actions{});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.run.state(), S::Errored);
}

// Found by simulation: a traind that drained unheard had stopped the supervisor that stood by
// there.
TEST(RunController, AGroupStoppedBeforeItStartedIsTriedAgainAndCountsAsNoFailure) {
  Driven d;
  d.nodes();
  d.prepared(kFirst);
  d.handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}}});
  const std::string reason = "the supervisor on node-b was stopped before its workers started";

  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeB}),
            (Actions{changed(S::Starting, S::TearingDown, T::GroupEnding, kFirst, reason),
                     StopGroup{kFirst, kNodeA, seconds(1), reason}}));
  d.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_FALSE(only<AttemptEnded>(actions).at(0).failed);
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunController, AGroupThatWasStoppedIsNotWaitedForWhileItIsBeingPrepared) {
  Driven d;
  d.nodes();
  d.handle(AttemptPrepared{kFirst, kNodeA, 41000});

  d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(d.run.state(), S::TearingDown);
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_FALSE(only<AttemptEnded>(actions).at(0).failed);
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunController, AGroupThatEndedOnOneNodeWhileAnotherStartsIsNoFailure) {
  Driven d;
  d.nodes();
  d.prepared(kFirst);
  d.handle(AttemptStarted{kFirst, kNodeB, {{Rank{1}, 100}}});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});

  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeB}), Actions{});
}

TEST(RunController, ANodeThatRefusesBeforeItIsPreparedIsNoRanksFault) {
  Driven d;
  d.nodes();
  const std::string cause = "no worker could be started on node-b: it is being drained";

  const Actions refused =
      d.handle(StartRefused{kFirst, kNodeB, Rank{0}, Error{Errc::Io, "it is being drained"}});

  EXPECT_EQ(only<StopGroup>(refused), (std::vector{StopGroup{kFirst, kNodeA, seconds(1), cause}}));
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(only<AttemptEnded>(actions).at(0).root_rank, std::nullopt);
}

// Several runs wait for the same nodes, and all are offered what another one leaves.
TEST(RunController, ANodeWhoseRoomAnotherRunHasTakenIsWaitedForAndCountsAsNoFailure) {
  Driven d;
  d.nodes();
  StartRefused taken{kFirst, kNodeB, Rank{0}, Error{Errc::ResourceExhausted, "too little free"}};
  taken.busy = true;

  EXPECT_EQ(only<StopGroup>(d.handle(taken)),
            (std::vector{StopGroup{kFirst, kNodeA, seconds(1), "too little free"}}));
  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_FALSE(only<AttemptEnded>(actions).at(0).failed);
  EXPECT_EQ(d.run.state(), S::Scheduling);
  ASSERT_TRUE(d.run.next_deadline());
  EXPECT_GE(*d.run.next_deadline(), kStart + kRoomTakenFirst);
  EXPECT_LT(*d.run.next_deadline(), kStart + 2 * kRoomTakenFirst);
  d.handle(node_up(kNodeB));  // its offer follows the refusal
  EXPECT_EQ(d.run.state(), S::Scheduling);
  d.handle(Tick{}, 2 * kRoomTakenFirst);
  EXPECT_EQ(d.run.attempt(), kSecond);
}

// They may have one name in two folders.
TEST(RunController, RunsOfOneNameWaitDifferentlyLongForRoom) {
  const auto waits = [](const std::string& run_id) {
    Driven d(two_workers(), {.expected_nodes = 2, .run_id = run_id});
    d.nodes();
    StartRefused taken{kFirst, kNodeB, Rank{0}, Error{Errc::ResourceExhausted, "too little free"}};
    taken.busy = true;
    d.handle(taken);
    d.handle(NodeGroupGone{kFirst, kNodeA});
    return d.run.next_deadline();
  };
  EXPECT_EQ(waits("vit-1"), waits("vit-1"));
  EXPECT_NE(waits("vit-1"), waits("vit-2"));
}

TEST(RunController, AStartThatMayWorkLaterIsTriedAgain) {
  JobSpec spec = two_workers();
  spec.run_config.failure_config.max_start_failures = 3;
  Driven d(spec);
  d.nodes();
  d.prepared(kFirst);
  d.handle(
      StartRefused{kFirst, kNodeB, Rank{1}, Error{Errc::ResourceExhausted, "fork: out of memory"}});

  const Actions actions = d.handle(NodeGroupGone{kFirst, kNodeA});

  EXPECT_EQ(actions[3], RunAction(changed(S::TearingDown, S::Scheduling, T::RestartDecided, kFirst,
                                          "restart 1 of 3")));
}

TEST(RunController, WorkersThatEndedWithoutOurOrderAreNoSuccess) {
  Driven d;
  d.running();

  d.handle(RankExited{
      kFirst, Rank{0},
      exited(0,
             /*stop_requested=*/true)});  // no launcher reconnected in time, its supervisor thought

  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(RunController, CommitsCheckpointsInOrderAndTellsTheRanks) {
  Driven d;
  d.running();
  d.handle(staged(kFirst, 0, 1));
  d.handle(staged(kFirst, 0, 2));
  d.handle(staged(kFirst, 1, 1));
  EXPECT_EQ(d.handle(staged(kFirst, 1, 2)), Actions{});

  EXPECT_EQ(
      d.handle(CommitFinished{kFirst, 1, checkpoint(1), ""}),
      (Actions{TellCheckpoint{kFirst, kNodeA, 1, "checkpoint_1", ""},
               TellCheckpoint{kFirst, kNodeB, 1, "checkpoint_1", ""},
               Commit{kFirst, 2, 2, {staged(kFirst, 0, 2).shard, staged(kFirst, 1, 2).shard}}}));
  EXPECT_EQ(d.handle(CommitFinished{kFirst, 1, checkpoint(1), ""}), Actions{});
}

TEST(RunController, ACommitThatFailsIsToldAndTrainingGoesOn) {
  Driven d;
  d.running();
  d.handle(staged(kFirst, 0, 1));
  d.handle(staged(kFirst, 1, 1));

  EXPECT_EQ(
      d.handle(CommitFinished{kFirst, 1, {}, "the disk is full"}),
      (Actions{Note{NoteLevel::Warning,
                    "checkpoint 1 of attempt 0 is not kept: the disk is full; training continues"},
               TellCheckpoint{kFirst, kNodeA, 1, "", "the disk is full"},
               TellCheckpoint{kFirst, kNodeB, 1, "", "the disk is full"}}));
  EXPECT_EQ(d.run.state(), S::Running);
  EXPECT_EQ(d.run.newest_checkpoint(), std::nullopt);
}

TEST(RunController, AnswersAgainWhatABrokenLinkLost) {
  Driven d;
  d.running();
  for (int rank = 0; rank < 2; ++rank)
    d.handle(CollectiveJoined{kFirst, Rank{rank}, 1, "reduce", std::to_string(rank)});
  for (int rank = 0; rank < 2; ++rank) d.handle(staged(kFirst, rank, 1));
  d.handle(CommitFinished{kFirst, 1, checkpoint(1), ""});

  EXPECT_EQ(d.handle(CollectiveJoined{kFirst, Rank{1}, 1, "reduce", "1"}),
            (Actions{SendCollective{kFirst, kNodeB, 1, std::vector<std::string>{"0", "1"}, ""}}));
  EXPECT_EQ(d.handle(staged(kFirst, 1, 1)),
            (Actions{TellCheckpoint{kFirst, kNodeB, 1, "checkpoint_1", ""}}));
}

TEST(RunController, GivesOrdersAgainThatABrokenLinkMayHaveLost) {
  Driven d;
  d.nodes();
  EXPECT_EQ(d.handle(node_up(kNodeB)), (Actions{Prepare{kFirst, on_b(), false}}));
  EXPECT_EQ(d.handle(node_up(kNodeB, {kFirst})), Actions{});
  d.prepared(kFirst);
  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}), (Actions{start_of(kFirst, kNodeB, 0)}));
  d.handle(AttemptStarted{kFirst, kNodeA, {}});
  d.handle(AttemptStarted{kFirst, kNodeB, {}});
  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}), Actions{});
  d.handle(RankExited{kFirst, Rank{0}, exited(1)});
  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}, milliseconds(400)),
            (Actions{StopGroup{kFirst, kNodeB, milliseconds(600), "rank 0 failed"}}));
}

TEST(RunController, NoticesASupervisorThatEndedWhileItsNodeWasOutOfReach) {
  Driven d;
  d.running();
  const std::string cause = "the supervisor on node-b ended while its node was unreachable";

  EXPECT_EQ(d.handle(node_up(kNodeB)),
            (Actions{changed(S::Running, S::TearingDown, T::GroupEnding, kFirst, cause),
                     StopGroup{kFirst, kNodeA, seconds(1), cause}}));
}

TEST(RunController, KnowsWhereTheRanksOfTheCurrentAttemptAre) {
  Driven d;
  d.running();

  EXPECT_EQ(d.run.node_of(kFirst, Rank{0}), kNodeA);
  EXPECT_EQ(d.run.node_of(kFirst, Rank{1}), kNodeB);
  EXPECT_EQ(d.run.node_of(kFirst, Rank{2}), std::nullopt);
  EXPECT_EQ(d.run.node_of(kFirst, Rank{-1}), std::nullopt);
  EXPECT_EQ(d.run.node_of(kSecond, Rank{0}), std::nullopt);
}

TEST(RunController, RanksThatDoNotExistChangeNothing) {
  Driven d;
  d.running();

  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{2}, exited(1)}), Actions{});
  EXPECT_EQ(d.handle(RankReported{kFirst, Rank{-1}, 1}), Actions{});
  EXPECT_EQ(d.handle(CollectiveJoined{kFirst, Rank{99}, 1, "barrier", ""}), Actions{});
  EXPECT_EQ(d.handle(staged(kFirst, 5, 1)), Actions{});
}

TEST(RunController, EventsThatComeTwiceChangeNothing) {
  Driven d;
  d.running();

  EXPECT_EQ(d.handle(AttemptPrepared{kFirst, kNodeA, 41000}), Actions{});
  EXPECT_EQ(d.handle(AttemptStarted{kFirst, kNodeA, {}}), Actions{});
  EXPECT_EQ(d.handle(RankJoined{kFirst, Rank{0}}), Actions{});
  EXPECT_EQ(d.handle(RankReported{kFirst, Rank{0}, 1}), Actions{});
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  EXPECT_EQ(d.handle(RankExited{kFirst, Rank{0}, exited(0)}), Actions{});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.handle(NodeGroupGone{kFirst, kNodeA}), Actions{});
}

// With 10,000 daemons, each look took milliseconds, and each new node caused one.
TEST(RunController, NodesThatComeTogetherAreLookedAtTogether) {
  JobSpec spec = two_workers();
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  Driven d(spec, {.checkpoint = {}, .expected_nodes = 4});
  d.handle(node_up(kNodeA));
  d.handle(Tick{}, seconds(3));  // stops waiting for all: it does not fit

  EXPECT_EQ(d.handle(node_up(kNodeB), seconds(3) + milliseconds(1)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(3) + kLookWhileNodesComeEvery);
  EXPECT_EQ(d.handle(node_up(kNodeC), seconds(3) + milliseconds(2)), Actions{});
  EXPECT_EQ(d.run.state(), RunState::Scheduling);
  d.handle(Tick{}, seconds(3) + kLookWhileNodesComeEvery);

  EXPECT_EQ(d.run.state(), RunState::Preparing);
}

TEST(RunController, TheLastNodeThatMayComeIsNotKeptWaiting) {
  JobSpec spec = two_workers();
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  Driven d(spec);
  d.handle(node_up(kNodeA));
  d.handle(Tick{}, seconds(3));

  d.handle(node_up(kNodeB), seconds(3) + milliseconds(1));

  EXPECT_EQ(d.run.state(), RunState::Preparing);
}

TEST(RunController, ARestartWaitsForNodesThatHaveNotAnsweredYet) {
  Driven d(two_workers(1), {.checkpoint = {}, .expected_nodes = 3});
  d.nodes();
  d.handle(Tick{}, seconds(3));  // begins without node-c
  d.started(kFirst);
  d.handle(RankExited{kFirst, Rank{0}, exited(1)}, seconds(100));
  d.handle(NodeGroupGone{kFirst, kNodeA}, seconds(100));

  d.handle(NodeGroupGone{kFirst, kNodeB}, seconds(100));

  EXPECT_EQ(d.run.state(), S::Scheduling);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(103));
  d.handle(Tick{}, seconds(103));
  EXPECT_EQ(d.run.state(), S::Preparing);
}

TEST(RunController, EachWaitForRoomIsSaidAtOnceAndThenMoreAndMoreRarely) {
  JobSpec spec = two_workers(1);
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  Driven d(spec);
  d.handle(node_up(kNodeA));
  EXPECT_EQ(only<Note>(d.handle(Tick{}, seconds(3))).size(), 1U);
  EXPECT_EQ(only<Note>(d.handle(Tick{}, seconds(4))).size(), 1U);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(6));
  d.handle(node_up(kNodeB), seconds(5));
  ASSERT_EQ(d.run.state(), S::Preparing);

  d.handle(NodeDown{kNodeB, "silent"}, seconds(5));
  const Actions waiting = d.handle(NodeGroupGone{kFirst, kNodeA}, seconds(5));

  EXPECT_EQ(d.run.state(), S::Scheduling);
  EXPECT_EQ(only<Note>(waiting).size(), 1U);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(6));
  EXPECT_EQ(only<Note>(d.handle(Tick{}, seconds(6))).size(), 1U);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(8));
}

}  // namespace
}  // namespace train
