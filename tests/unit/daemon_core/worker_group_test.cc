#include "daemon/supervisor/core/worker_group.h"

#include <gtest/gtest.h>

#include <csignal>

namespace train {
namespace {

constexpr TimePoint kStart{seconds(1000)};
constexpr WaitStatus kClean{}, kTerminated{.signaled = true, .status = SIGTERM};
using Actions = std::vector<GroupAction>;

struct Group {
  WorkerGroup group{seconds(30), seconds(600), kStart};
  Actions handle(const GroupEvent& event, Duration after = {}) {
    return group.handle(event, kStart + after);
  }
  Group& running() {
    handle(LauncherPresence{true});
    handle(GroupStart{{Rank{0}, Rank{1}}});
    handle(WorkerSpawned{Rank{0}, 100});
    handle(WorkerSpawned{Rank{1}, 101});
    return *this;
  }
};

TEST(WorkerGroup, TellsThatItStartedOnceAllAreSpawned) {
  Group g;
  EXPECT_EQ(g.handle(GroupStart{{Rank{0}, Rank{1}}}),
            (Actions{SpawnWorker{Rank{0}}, SpawnWorker{Rank{1}}}));
  EXPECT_EQ(g.handle(GroupStart{{Rank{0}, Rank{1}}}), Actions{});
  EXPECT_EQ(g.handle(WorkerSpawned{Rank{1}, 101}), Actions{});
  EXPECT_EQ(g.handle(WorkerSpawned{Rank{0}, 100}),
            (Actions{TellStarted{{{Rank{0}, 100}, {Rank{1}, 101}}}}));
  EXPECT_EQ(g.group.phase(), GroupPhase::Running);
}

// On a node where only ingest workers are to run.
TEST(WorkerGroup, WithoutWorkersItLivesUntilItIsStoppedOrReleased) {
  for (const bool released : {true, false}) {
    Group g;
    EXPECT_EQ(g.handle(GroupStart{}), (Actions{TellStarted{}}));
    EXPECT_EQ(g.group.phase(), GroupPhase::Running);
    EXPECT_TRUE(g.group.began());
    EXPECT_EQ(g.handle(GroupTick{}), Actions{});
    if (released)
      EXPECT_EQ(g.handle(GroupRelease{}), (Actions{TellGone{}, EndSupervisor{"released"}}));
    else
      EXPECT_EQ(g.handle(GroupStop{seconds(5), "over"}), (Actions{TellGone{}}));
  }
}

/// Even if the job allows none: traind tells of the launcher a moment after the start.
TEST(WorkerGroup, WaitsAWhileForTheFirstLauncher) {
  WorkerGroup group(seconds(30), seconds(0), kStart);
  (void)group.handle(GroupTick{}, kStart + seconds(29));
  EXPECT_EQ(group.phase(), GroupPhase::Prepared);

  (void)group.handle(LauncherPresence{true}, kStart + seconds(29));
  (void)group.handle(LauncherPresence{false}, kStart + seconds(29));

  EXPECT_EQ(group.phase(), GroupPhase::Gone);
}

TEST(WorkerGroup, EndsIfNoLauncherComesAtAll) {
  WorkerGroup group(seconds(30), seconds(0), kStart);
  (void)group.handle(GroupTick{}, kStart + seconds(30));
  EXPECT_EQ(group.phase(), GroupPhase::Gone);
}

TEST(WorkerGroup, StartsAllOrNone) {
  Group g;
  const Error error{Errc::NotFound, "no such command"};
  g.handle(GroupStart{{Rank{0}, Rank{1}, Rank{2}}});
  g.handle(WorkerSpawned{Rank{0}, 100});
  EXPECT_EQ(g.handle(WorkerSpawnFailed{Rank{1}, error}), (Actions{SignalWorker{Rank{0}, SIGKILL}}));
  EXPECT_EQ(g.handle(WorkerSpawned{Rank{2}, 102}), (Actions{SignalWorker{Rank{2}, SIGKILL}}));
  g.handle(WorkerReaped{Rank{0}, {.signaled = true, .status = SIGKILL}});
  g.handle(WorkerReaped{Rank{2}, {.signaled = true, .status = SIGKILL}});
  EXPECT_EQ(g.handle(WorkerDrained{Rank{0}}), Actions{});
  EXPECT_EQ(g.handle(WorkerDrained{Rank{2}}), (Actions{TellStartFailed{Rank{1}, error}}));
}

TEST(WorkerGroup, TellsEachEndAndThatNobodyIsLeft) {
  Group g;
  g.running();
  EXPECT_EQ(g.handle(WorkerReaped{Rank{0}, kClean}),
            (Actions{ReapRankLeftovers{Rank{0}}, TellExited{Rank{0}, 100, kClean, false}}));
  EXPECT_EQ(g.handle(WorkerReaped{Rank{1}, {.status = 3}}),
            (Actions{ReapRankLeftovers{Rank{1}}, TellExited{Rank{1}, 101, {.status = 3}, false}}));
  EXPECT_EQ(g.handle(WorkerDrained{Rank{0}}), Actions{});
  EXPECT_EQ(g.handle(WorkerDrained{Rank{1}}), (Actions{TellGone{}}));
  EXPECT_EQ(g.handle(GroupRelease{}), (Actions{EndSupervisor{"released"}}));
  EXPECT_EQ(g.group.next_deadline(), std::nullopt);
}

TEST(WorkerGroup, SendsTermAndAfterTheGraceKill) {
  Group g;
  g.running();
  EXPECT_EQ(g.handle(GroupStop{seconds(5), "Ctrl-C"}),
            (Actions{SignalWorker{Rank{0}, SIGTERM}, SignalWorker{Rank{1}, SIGTERM}}));
  EXPECT_EQ(g.handle(WorkerReaped{Rank{0}, kTerminated}, seconds(1)),
            (Actions{ReapRankLeftovers{Rank{0}}, TellExited{Rank{0}, 100, kTerminated, true}}));
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(5));
  EXPECT_EQ(g.handle(GroupTick{}, seconds(5)), (Actions{SignalWorker{Rank{1}, SIGKILL}}));
}

TEST(WorkerGroup, AShorterGraceWinsAndALongerOneDoesNot) {
  Group g;
  g.running();
  g.handle(GroupStop{seconds(30), ""});
  EXPECT_EQ(g.handle(GroupStop{seconds(1), ""}), Actions{});
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(1));
  g.handle(GroupStop{seconds(60), ""});
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(1));
  EXPECT_EQ(g.handle(GroupStop{Duration{0}, ""}),
            (Actions{SignalWorker{Rank{0}, SIGKILL}, SignalWorker{Rank{1}, SIGKILL}}));
}

TEST(WorkerGroup, StopsWhenNoLauncherComesBackInTime) {
  Group g;
  g.running();
  g.handle(LauncherPresence{false}, seconds(10));
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(610));
  EXPECT_EQ(g.handle(GroupTick{}, seconds(610)),
            (Actions{SignalWorker{Rank{0}, SIGTERM}, SignalWorker{Rank{1}, SIGTERM}}));
  for (int rank = 0; rank < 2; ++rank)
    g.handle(WorkerReaped{Rank{rank}, kTerminated}, seconds(611));
  g.handle(WorkerDrained{Rank{0}}, seconds(611));
  EXPECT_EQ(g.handle(WorkerDrained{Rank{1}}, seconds(611)),
            (Actions{TellGone{}, EndSupervisor{"no launcher reconnected in time"}}));
  EXPECT_EQ(g.group.next_deadline(), std::nullopt);
  EXPECT_EQ(g.handle(GroupTick{}, seconds(2000)), Actions{});
}

TEST(WorkerGroup, GoesOnWhenALauncherComesBack) {
  Group g;
  g.running();
  g.handle(LauncherPresence{false}, seconds(10));
  g.handle(LauncherPresence{true}, seconds(20));
  EXPECT_EQ(g.group.next_deadline(), std::nullopt);
  EXPECT_EQ(g.handle(GroupTick{}, seconds(700)), Actions{});
}

TEST(WorkerGroup, ALauncherThatComesBackTooLateStillReleasesIt) {
  Group g;
  g.running();
  g.handle(LauncherPresence{false}, seconds(10));
  g.handle(GroupTick{}, seconds(610));
  g.handle(LauncherPresence{true}, seconds(611));
  for (int rank = 0; rank < 2; ++rank) {
    g.handle(WorkerReaped{Rank{rank}, kTerminated}, seconds(612));
    g.handle(WorkerDrained{Rank{rank}}, seconds(612));
  }
  EXPECT_EQ(g.group.phase(), GroupPhase::Gone);

  EXPECT_EQ(g.handle(GroupRelease{}, seconds(613)), (Actions{EndSupervisor{"released"}}));
}

TEST(WorkerGroup, ALauncherThatLeavesOnceMoreIsNotWaitedForAnyLonger) {
  Group g;
  g.running();
  g.handle(LauncherPresence{false}, seconds(10));
  g.handle(GroupTick{}, seconds(610));
  g.handle(LauncherPresence{true}, seconds(611));
  for (int rank = 0; rank < 2; ++rank) {
    g.handle(WorkerReaped{Rank{rank}, kTerminated}, seconds(612));
    g.handle(WorkerDrained{Rank{rank}}, seconds(612));
  }
  g.handle(LauncherPresence{false}, seconds(613));

  EXPECT_EQ(g.handle(GroupTick{}, seconds(1213)),
            (Actions{EndSupervisor{"no launcher reconnected in time"}}));
}

TEST(WorkerGroup, KeepsItsOrphanTimeoutWhenADaemonDoesNotKnowIt) {
  Group g;
  g.group.set_limits(seconds(30), seconds(20));
  g.group.set_limits(seconds(30), milliseconds(-1));
  g.handle(LauncherPresence{true});
  g.handle(LauncherPresence{false});
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(20));
}

TEST(WorkerGroup, ReleasedWhileWorkersLiveKillsThemFirst) {
  Group g;
  g.running();
  EXPECT_EQ(g.handle(GroupRelease{}),
            (Actions{SignalWorker{Rank{0}, SIGKILL}, SignalWorker{Rank{1}, SIGKILL}}));
}

TEST(WorkerGroup, ReleasedItWaitsForNothingThatIsStillBeingStored) {
  Group g;
  g.running();
  g.handle(GroupRelease{});
  g.handle(WorkerReaped{Rank{0}, kTerminated});

  const auto actions = g.handle(WorkerReaped{Rank{1}, kTerminated});

  EXPECT_EQ(actions.back(), GroupAction(EndSupervisor{"released"}));
}

// Found by simulation: a draining traind stopped a supervisor that stood by, the launcher could not
// hear of it, and later started its next attempt there.
TEST(WorkerGroup, AStartAfterTheEndIsAnsweredWithTheEnd) {
  Group g;
  EXPECT_EQ(g.handle(GroupStop{seconds(10)}), Actions{TellGone{}});

  EXPECT_EQ(g.handle(GroupStart{{Rank{0}, Rank{1}}}), Actions{TellGone{}});
  EXPECT_EQ(g.handle(GroupRelease{}), Actions{EndSupervisor{"released"}});
  EXPECT_EQ(g.handle(GroupStart{{Rank{0}, Rank{1}}}), Actions{});
}

TEST(WorkerGroup, AStartThatIsRepeatedAfterTheEndSaysNothing) {
  Group g;
  g.running();
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    g.handle(WorkerReaped{rank, kClean});
    g.handle(WorkerDrained{rank});
  }
  ASSERT_EQ(g.group.phase(), GroupPhase::Gone);

  EXPECT_EQ(g.handle(GroupStart{{Rank{0}, Rank{1}}}), Actions{});
}

TEST(WorkerGroup, ProcessesThatStayHaveEndedAsWorkersAndAreKept) {
  Group g;
  g.running();
  EXPECT_EQ(g.handle(WorkerStays{Rank{0}}), (Actions{TellExited{Rank{0}, 100, kClean, false}}));
  EXPECT_EQ(g.group.alive(), (std::map<Rank, std::int64_t>{{Rank{1}, 101}}));
  EXPECT_EQ(g.handle(WorkerStays{Rank{1}}), (Actions{TellExited{Rank{1}, 101, kClean, false}}));
  g.handle(WorkerDrained{Rank{0}});
  EXPECT_EQ(g.handle(WorkerDrained{Rank{1}}), (Actions{TellGone{.stay = true}}));
  EXPECT_EQ(g.handle(GroupRelease{.keep_workers = true}), (Actions{KeepWorkers{}}));
  EXPECT_EQ(g.handle(GroupRelease{}), Actions{});
  EXPECT_EQ(g.group.next_deadline(), std::nullopt);
}

TEST(WorkerGroup, ThatWantsNoMoreOfThoseThatStayEnds) {
  Group g;
  g.running();
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    g.handle(WorkerStays{rank});
    g.handle(WorkerDrained{rank});
  }
  EXPECT_EQ(g.handle(GroupRelease{}), (Actions{EndSupervisor{"released"}}));
}

// The next attempt gets this one's GPUs once the group is gone.
TEST(WorkerGroup, IfOneProcessHasEndedThoseThatStayEndBeforeTheGroupIsGone) {
  Group g;
  g.running();
  g.handle(WorkerStays{Rank{0}});
  g.handle(WorkerReaped{Rank{1}, kClean});
  g.handle(WorkerDrained{Rank{0}});
  EXPECT_EQ(g.handle(WorkerDrained{Rank{1}}), (Actions{EndThoseThatStay{}}));
  EXPECT_EQ(g.group.next_deadline(), kStart + seconds(5));
  EXPECT_EQ(g.handle(GroupTick{}, seconds(5)), (Actions{SignalWorker{Rank{0}, SIGKILL}}));
  EXPECT_EQ(g.group.next_deadline(), std::nullopt);
  EXPECT_EQ(g.handle(WorkerReaped{Rank{0}, kTerminated}, seconds(6)),
            (Actions{ReapRankLeftovers{Rank{0}}, TellGone{.stay = false}}));
  EXPECT_EQ(g.handle(GroupRelease{.keep_workers = true}, seconds(7)),
            (Actions{EndSupervisor{"released"}}));
}

// Its end as a worker was told already.
TEST(WorkerGroup, AProcessThatStayedAndDiesTakesNobodysPlace) {
  Group g;
  g.running();
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    g.handle(WorkerStays{rank});
    g.handle(WorkerDrained{rank});
  }
  EXPECT_EQ(g.handle(WorkerReaped{Rank{1}, kTerminated}), (Actions{ReapRankLeftovers{Rank{1}}}));
  EXPECT_EQ(g.handle(GroupRelease{.keep_workers = true}), (Actions{EndSupervisor{"released"}}));
}

TEST(WorkerGroup, AStopLeavesProcessesThatStayAlone) {
  Group g;
  g.running();
  g.handle(WorkerStays{Rank{0}});
  EXPECT_EQ(g.handle(GroupStop{seconds(5)}), (Actions{SignalWorker{Rank{1}, SIGTERM}}));
  EXPECT_EQ(g.handle(WorkerStays{Rank{0}}), Actions{});  // it was told
}

TEST(WorkerGroup, ReleasedBeforeItStartedEndsAtOnce) {
  Group g;
  g.handle(LauncherPresence{true});
  EXPECT_EQ(g.handle(GroupRelease{}), (Actions{TellGone{}, EndSupervisor{"released"}}));
  EXPECT_EQ(g.handle(GroupStart{{Rank{0}}}), Actions{});
}

}  // namespace
}  // namespace train
