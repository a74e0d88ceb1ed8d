// Requested stops, and stop conditions.
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using T = RunTrigger;
using Step = PauseStep;

StopAsked ctrl_c() { return {StopKind::Interrupt, "Ctrl-C"}; }
Actions pause_all(Step step, std::uint64_t report_seq) {
  return {Pause{kFirst, kNodeA, step, report_seq, "Ctrl-C"},
          Pause{kFirst, kNodeB, step, report_seq, "Ctrl-C"}};
}

TEST(GracefulStop, PausesAdvancesFinishesAndEnds) {
  Driven d;
  d.running();
  Actions asked = pause_all(Step::Pause, 0);
  asked.insert(asked.begin(), changed(S::Running, S::Pausing, T::PauseAsked, kFirst, "Ctrl-C"));
  EXPECT_EQ(d.handle(ctrl_c()), asked);
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 5, 0}), Actions{});
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{1}, 7, 0}), pause_all(Step::Advance, 7));
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{1}, 7, 0, true}), Actions{});
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 7, 0, true}), pause_all(Step::Finish, 7));
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  EXPECT_EQ(
      d.handle(RankExited{kFirst, Rank{1}, exited(0)}),
      (Actions{changed(S::Pausing, S::TearingDown, T::GroupEnding, kFirst, "every rank ended")}));
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions end = d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(end.back(), RunAction(RunEnded{S::Stopped, "Ctrl-C", StopKind::Interrupt}));
}

TEST(GracefulStop, WaitsForTheCheckpointAtTheLastReport) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 7, 0});
  d.handle(RankPaused{kFirst, Rank{1}, 7, 0});
  d.handle(RankPaused{kFirst, Rank{0}, 7, 1, true});
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{1}, 7, 1, true}), Actions{});
  d.handle(staged(kFirst, 0, 1, 7));
  d.handle(staged(kFirst, 1, 1, 7));

  const Actions actions = d.handle(CommitFinished{kFirst, 1, checkpoint(1), ""});

  EXPECT_EQ(actions, (Actions{TellCheckpoint{kFirst, kNodeA, 1, "checkpoint_1", ""},
                              TellCheckpoint{kFirst, kNodeB, 1, "checkpoint_1", ""},
                              Pause{kFirst, kNodeA, Step::Finish, 7, "Ctrl-C"},
                              Pause{kFirst, kNodeB, Step::Finish, 7, "Ctrl-C"}}));
}

TEST(GracefulStop, InLockstepTheRanksMeetOneReportFurther) {
  Driven d;
  d.running();
  d.handle(RankReported{kFirst, Rank{0}, 5});
  d.handle(RankReported{kFirst, Rank{1}, 5});
  d.handle(ctrl_c());
  d.handle(
      RankPaused{kFirst, Rank{0}, 5,
                 0});  // rank 1 was past report 5 already, and waits for rank 0 in an all-reduce
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(1));

  EXPECT_EQ(d.handle(Tick{}, seconds(1)), pause_all(Step::Advance, 6));
}

TEST(GracefulStop, InLockstepTheyMeetAlsoWhenTheTickComesLate) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 5, 0});

  EXPECT_EQ(d.handle(Tick{}, seconds(1) + milliseconds(7)), pause_all(Step::Advance, 5));
}

TEST(GracefulStop, AShardFromBeyondTheLastReportIsNotKept) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 7, 0});
  d.handle(RankPaused{kFirst, Rank{1}, 7, 0});
  d.handle(staged(kFirst, 0, 1, 7));
  const std::string error = "rank 1: made at report 8, all ranks were to stop at 7";

  EXPECT_EQ(d.handle(staged(kFirst, 1, 1, 8)),
            (Actions{Note{NoteLevel::Warning, "checkpoint 1 of attempt 0 is not kept: " + error},
                     TellCheckpoint{kFirst, kNodeA, 1, "", error},
                     TellCheckpoint{kFirst, kNodeB, 1, "", error}}));
}

RankExited came_to_its_end(int rank, std::uint64_t last_report) {
  WorkerEnd end = exited(0);
  end.last_report_seq = last_report;
  return {kFirst, Rank{rank}, end};
}

TEST(GracefulStop, TheOthersStopWhereARankCameToItsEndByItself) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(came_to_its_end(1, 12));  // before it heard of the pause
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 5, 0}), pause_all(Step::Advance, 12));

  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 12, 0, true}), pause_all(Step::Finish, 12));
}

TEST(GracefulStop, TheOthersGoFurtherOnceARankThatWasToMeetThemHasEnded) {
  Driven d;
  d.running();
  d.handle(RankReported{kFirst, Rank{1}, 5});
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 5, 0});
  EXPECT_EQ(d.handle(Tick{}, seconds(1)), pause_all(Step::Advance, 6));
  d.handle(RankPaused{kFirst, Rank{0}, 6, 0, true}, seconds(1));

  EXPECT_EQ(d.handle(came_to_its_end(1, 12), seconds(1)), pause_all(Step::Advance, 12));
}

TEST(GracefulStop, WhereARankEndedIsTheLastReportThatTheOthersAreToldOf) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(RankReported{kFirst, Rank{1}, 12});
  d.handle(came_to_its_end(1, 12));

  // Rank 0 is in a long step, and may be behind: rank 1 makes no report 13.
  EXPECT_EQ(d.handle(Tick{}, seconds(1)), pause_all(Step::Advance, 12));
}

TEST(GracefulStop, ACheckpointThatLacksTheShardOfARankThatEndedIsWaitedForTwoSeconds) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(came_to_its_end(1, 12));
  d.handle(RankPaused{kFirst, Rank{0}, 5, 0});
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 12, 1, true}, seconds(1)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(3));

  EXPECT_EQ(d.handle(Tick{}, seconds(3)), pause_all(Step::Finish, 12));
}

TEST(GracefulStop, WhereTheOthersGoFurtherTheirCheckpointThereHasItsOwnTwoSeconds) {
  Driven d;
  d.running(false);
  for (int rank : {0, 1}) d.handle(RankJoined{kFirst, Rank{rank}});
  d.handle(RankReported{kFirst, Rank{0}, 5});  // rank 1 has not reported yet
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 5, 0});
  EXPECT_EQ(d.handle(Tick{}, seconds(2)), pause_all(Step::Advance, 5));
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 5, 1, true}, seconds(2)), Actions{});
  EXPECT_EQ(d.handle(came_to_its_end(1, 12), seconds(9)), pause_all(Step::Advance, 12));

  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 12, 2, true}, seconds(10)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(12));
}

TEST(GracefulStop, PartsThatRanksMadeAtDifferentReportsAreNoCheckpoint) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(staged(kFirst, 1, 1, 12));  // its last one
  d.handle(came_to_its_end(1, 12));
  d.handle(RankPaused{kFirst, Rank{0}, 5, 0});
  const std::string error = "rank 0 made it at report 5, rank 1 at report 12";

  EXPECT_EQ(d.handle(staged(kFirst, 0, 1, 5)),
            (Actions{Note{NoteLevel::Warning, "checkpoint 1 of attempt 0 is not kept: " + error},
                     TellCheckpoint{kFirst, kNodeA, 1, "", error},
                     TellCheckpoint{kFirst, kNodeB, 1, "", error}}));
  EXPECT_EQ(only<Commit>(d.handle(staged(kFirst, 0, 2, 12))), std::vector<Commit>{});
}

TEST(GracefulStop, WaitsTwoSecondsForRanksThatHaveNotReported) {
  Driven d;
  d.running(false);
  d.handle(RankJoined{kFirst, Rank{0}});
  d.handle(RankReported{kFirst, Rank{0}, 3});
  d.handle(ctrl_c());
  EXPECT_EQ(d.handle(RankPaused{kFirst, Rank{0}, 4, 0}), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(2));

  EXPECT_EQ(d.handle(Tick{}, seconds(2)), pause_all(Step::Advance, 4));
}

TEST(GracefulStop, WithoutAnyReportTheWorkersGetTermAtOnce) {
  Driven d;
  d.running(false);

  EXPECT_EQ(d.handle(ctrl_c()),
            (Actions{changed(S::Running, S::TearingDown, T::GroupEnding, kFirst, "Ctrl-C"),
                     StopGroup{kFirst, kNodeA, seconds(30), "Ctrl-C"},
                     StopGroup{kFirst, kNodeB, seconds(30), "Ctrl-C"}}));
}

TEST(GracefulStop, ItsGraceBoundsTheWhole) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(Tick{}, seconds(1));
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(30));
  const std::string reason = "the ranks did not meet at one report in time";

  EXPECT_EQ(d.handle(Tick{}, seconds(30)),
            (Actions{changed(S::Pausing, S::TearingDown, T::GroupEnding, kFirst, reason),
                     StopGroup{kFirst, kNodeA, seconds(1), reason},
                     StopGroup{kFirst, kNodeB, seconds(1), reason}}));
}

TEST(GracefulStop, WorkersThatGoOnAfterTheEndGetTerm) {
  Driven d;
  d.running();
  d.handle(ctrl_c());
  d.handle(RankPaused{kFirst, Rank{0}, 7, 0});
  d.handle(RankPaused{kFirst, Rank{1}, 7, 0});
  d.handle(RankPaused{kFirst, Rank{0}, 7, 0, true});
  d.handle(RankPaused{kFirst, Rank{1}, 7, 0, true});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(5));

  const Actions actions = d.handle(Tick{}, seconds(5));

  EXPECT_EQ(actions[1], RunAction(StopGroup{kFirst, kNodeA, seconds(1),
                                            "workers went on after the end was announced"}));
}

TEST(GracefulStop, ASecondCtrlCKillsAtOnce) {
  Driven d;
  d.running();
  d.handle(ctrl_c());

  EXPECT_EQ(d.handle(ctrl_c()),
            (Actions{changed(S::Pausing, S::TearingDown, T::GroupEnding, kFirst,
                             "asked to stop immediately"),
                     StopGroup{kFirst, kNodeA, Duration{0}, "asked to stop immediately"},
                     StopGroup{kFirst, kNodeB, Duration{0}, "asked to stop immediately"}}));
}

TEST(GracefulStop, AWorkerThatDiesWhileOthersPauseStopsTheGroup) {
  Driven d(two_workers(3));
  d.running();
  d.handle(ctrl_c());
  d.handle(RankExited{kFirst, Rank{1}, killed(SIGSEGV)});
  EXPECT_EQ(d.run.state(), S::TearingDown);
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const Actions end = d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(end.back(),
            RunAction(RunEnded{S::Stopped, "Ctrl-C",
                               StopKind::Interrupt}));  // no restart: somebody wants it to end
}

TEST(GracefulStop, GivesThePauseAgainToASupervisorThatIsBack) {
  Driven d;
  d.running();
  d.handle(ctrl_c());

  EXPECT_EQ(d.handle(SupervisorAttached{kFirst, kNodeB}),
            (Actions{Pause{kFirst, kNodeB, Step::Pause, 0, "Ctrl-C"}}));
}

TEST(Stop, WhileSchedulingEndsTheRun) {
  Driven d;
  StateChanged stopped = changed(S::Scheduling, S::Stopped, T::EndedByRequest, Attempt{}, "Ctrl-C");
  stopped.stop = StopKind::Interrupt;

  EXPECT_EQ(d.handle(ctrl_c()),
            (Actions{stopped, RunEnded{S::Stopped, "Ctrl-C", StopKind::Interrupt}}));
}

TEST(Stop, WhilePreparingAndStartingStopsTheNodes) {
  for (const bool prepared : {false, true}) {
    Driven d;
    d.nodes();
    if (prepared) {
      d.handle(AttemptPrepared{kFirst, kNodeA, 41000});
      d.handle(AttemptPrepared{kFirst, kNodeB, 0});
    }
    const S state = prepared ? S::Starting : S::Preparing;

    EXPECT_EQ(d.handle(ctrl_c()),
              (Actions{changed(state, S::TearingDown, T::GroupEnding, kFirst, "Ctrl-C"),
                       StopGroup{kFirst, kNodeA, seconds(30), "Ctrl-C"},
                       StopGroup{kFirst, kNodeB, seconds(30), "Ctrl-C"}}));
  }
}

TEST(StopCondition, EndsTheRunAsFinished) {
  Driven d;
  d.running();
  d.handle(StopAsked{StopKind::StopCondition, "epoch reached 10"});
  EXPECT_EQ(d.run.state(), S::Pausing);
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const Actions end = d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(end.back(),
            RunAction(RunEnded{S::Finished, "epoch reached 10", StopKind::StopCondition}));
}

TEST(StopCondition, ThatIsHeardOfBetweenTwoAttemptsEndsTheRunAsFinished) {
  JobSpec spec = two_workers(kUnlimited);
  Driven d(spec);
  d.running();
  for (const Attempt attempt : {kFirst, kSecond}) {  // the second restart waits
    d.handle(RankExited{attempt, Rank{0}, exited(1)});
    d.handle(NodeGroupGone{attempt, kNodeA});
    d.handle(NodeGroupGone{attempt, kNodeB});
    if (attempt == kFirst) d.started(kSecond);
  }
  ASSERT_EQ(d.run.state(), S::Scheduling);

  EXPECT_EQ(d.handle(StopAsked{StopKind::StopCondition, "epoch reached 10"}),
            (Actions{changed(S::Scheduling, S::Finished, T::EndedWell, kSecond, "epoch reached 10"),
                     RunEnded{S::Finished, "epoch reached 10", StopKind::StopCondition}}));
}

// The simulation found this: a broken link lost the stop order, the next link carried a call's
// error, and the next launcher counted the ranks that it ended as failed.
TEST(RunControllerStop, ANodeWithANewLinkHearsOfTheStopBeforeItHearsThatACallCannotComplete) {
  Driven d;
  d.running(false);
  d.handle(CollectiveJoined{kFirst, Rank{1}, 1, "barrier", ""});
  d.handle(StopAsked{StopKind::Command, "asked"});

  d.handle(node_up(kNodeB, {kFirst}));
  const Actions actions = d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  ASSERT_EQ(actions.size(), 3u);
  EXPECT_EQ(std::get<SendCollective>(actions[0]).node, kNodeA);
  EXPECT_EQ(std::get<StopGroup>(actions[1]).node, kNodeB);
  EXPECT_EQ(std::get<SendCollective>(actions[2]).node, kNodeB);
}

}  // namespace
}  // namespace train
