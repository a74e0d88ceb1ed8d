// The small state machines around an attempt, each alone: when to place it, when to grow it, and
// when to start standbys for the next one.
#include "launcher/core/scheduling.h"

#include <gtest/gtest.h>

#include "launcher/core/group_growth.h"
#include "launcher/core/node_pool.h"
#include "launcher/core/standby_pool.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

TEST(Scheduling, WaitsForNodesThatMayComeAndThenLooksAtMostTenTimesASecond) {
  Scheduling scheduling(kStart);
  EXPECT_FALSE(scheduling.looks(kStart, /*nodes_may_come=*/true, 2));
  EXPECT_EQ(scheduling.next_deadline(kStart, true), kStart + kAllNodesWait);
  EXPECT_TRUE(scheduling.looks(kStart, false, 2));

  const TimePoint waited = kStart + kAllNodesWait;
  EXPECT_TRUE(scheduling.looks(waited, true, 2));
  EXPECT_FALSE(scheduling.looks(waited + kLookWhileNodesComeEvery - Duration{1}, true, 2));
  EXPECT_EQ(scheduling.next_deadline(waited, true), waited + kLookWhileNodesComeEvery);
  EXPECT_TRUE(scheduling.looks(waited + kLookWhileNodesComeEvery, true, 2));
}

TEST(Scheduling, OneLookServesWhatThousandsOfNodesTellWithinAMoment) {
  Scheduling scheduling(kStart);
  const Duration moment = 80 * kLookEveryHundredNodes;
  EXPECT_TRUE(scheduling.looks(kStart, false, 8000));

  EXPECT_FALSE(scheduling.looks(kStart + moment - Duration{1}, false, 8000));

  EXPECT_EQ(scheduling.next_deadline(kStart, false), kStart + moment);
  EXPECT_TRUE(scheduling.looks(kStart + moment, false, 8000));
  EXPECT_NE(scheduling.next_deadline(kStart + moment, false), kStart + 2 * moment);
  EXPECT_TRUE(scheduling.looks(kStart + moment, false, 99)) << "a few are looked at each time";
}

TEST(Scheduling, ARestartWaitsForItsDelay) {
  Scheduling scheduling(kStart);
  scheduling.restart(kStart, seconds(4));

  EXPECT_TRUE(scheduling.backing_off(kStart + seconds(4) - Duration{1}));
  EXPECT_FALSE(scheduling.looks(kStart + seconds(4) - Duration{1}, false, 2));
  EXPECT_EQ(scheduling.next_deadline(kStart, false), kStart + seconds(4));
  EXPECT_TRUE(scheduling.looks(kStart + seconds(4), false, 2));
  EXPECT_FALSE(scheduling.nodes_waited_for(kStart + kAllNodesWait));
  EXPECT_TRUE(scheduling.nodes_waited_for(kStart + seconds(4) + kAllNodesWait));
}

TEST(Scheduling, WhatIsHeldBeginsAnewOnceItIsReleased) {
  Scheduling scheduling(kStart);
  scheduling.hold();
  EXPECT_TRUE(scheduling.backing_off(kStart + std::chrono::hours(24)));
  EXPECT_FALSE(scheduling.looks(kStart + std::chrono::hours(24), false, 2));
  EXPECT_EQ(scheduling.next_deadline(kStart, true), std::nullopt);

  const TimePoint released = kStart + seconds(90);
  scheduling.release(released);

  EXPECT_FALSE(scheduling.looks(released, true, 2)) << "nodes have their time to answer";
  EXPECT_EQ(scheduling.next_deadline(released, true), released + kAllNodesWait);
  EXPECT_TRUE(scheduling.looks(released, false, 2));
  scheduling.release(released + seconds(50));  // again: nothing changes
  EXPECT_TRUE(scheduling.looks(released + seconds(40), false, 2));
}

TEST(Scheduling, AReleaseLeavesTheDelayOfARestart) {
  Scheduling scheduling(kStart);
  scheduling.hold();
  scheduling.restart(kStart, seconds(60));
  scheduling.release(kStart + seconds(1));

  EXPECT_TRUE(scheduling.backing_off(kStart + seconds(59)));
  EXPECT_FALSE(scheduling.backing_off(kStart + seconds(60)));
}

TEST(Scheduling, WaitsLongerEachTimeThatTheRoomWasTaken) {
  Scheduling scheduling(kStart);
  const auto within = [&](Duration least) {
    const Duration delay = scheduling.delay_for_room("a run");
    return least <= delay && delay < 2 * least;
  };
  EXPECT_TRUE(within(kRoomTakenFirst));
  EXPECT_TRUE(within(2 * kRoomTakenFirst));
  for (int i = 0; i < 100; ++i) scheduling.delay_for_room("a run");
  EXPECT_TRUE(within(kRoomTakenMax));

  scheduling.had_room();

  EXPECT_TRUE(within(kRoomTakenFirst));
}

// Two runs that have taken half of each other's nodes would meet again and again.
TEST(Scheduling, RunsThatWantTheSameRoomDoNotComeBackTogether) {
  EXPECT_NE(Scheduling(kStart).delay_for_room("a run"),
            Scheduling(kStart).delay_for_room("another"));
}

TEST(Scheduling, SaysThatItWaitsMoreAndMoreSeldom) {
  Scheduling scheduling(kStart);
  EXPECT_TRUE(scheduling.says_waiting(kStart));
  EXPECT_FALSE(scheduling.says_waiting(kStart));
  EXPECT_EQ(scheduling.next_deadline(kStart, false), kStart + seconds(1));
  EXPECT_TRUE(scheduling.says_waiting(kStart + seconds(1)));
  EXPECT_EQ(scheduling.next_deadline(kStart, false), kStart + seconds(3));
  for (int i = 0; i < 10; ++i) scheduling.says_waiting(kStart + seconds(100 * i));
  EXPECT_EQ(scheduling.next_deadline(kStart, false), kStart + seconds(900) + kWaitingNoteMax);

  scheduling.placed();

  EXPECT_EQ(scheduling.next_deadline(kStart, false), std::nullopt);
  EXPECT_TRUE(scheduling.says_waiting(kStart));
}

TEST(NodePool, LeavesOutWhatIsDrainingAndWhatIsQuarantinedWhileThereIsRoomElsewhere) {
  NodePool pool(3);
  FailurePolicy policy(FailureConfig{}, false, 3);
  ScalingConfig scaling = two_workers().scaling_config;
  const auto names = [&] {
    std::string names;
    for (const NodeCapacity& node : pool.usable(scaling, policy)) names += node.name + " ";
    return names;
  };
  pool.up(node_up(kNodeA));
  pool.up(node_up(kNodeB));
  EXPECT_TRUE(pool.may_grow());
  pool.up(node_up(kNodeC));
  EXPECT_FALSE(pool.may_grow());
  EXPECT_EQ(names(), "node-a node-b node-c ");

  for (int i = 0; i < kNodeFailuresMax; ++i) policy.node_failed(kNodeB, kStart);
  EXPECT_EQ(names(), "node-a node-c ");
  EXPECT_TRUE(pool.drain(kNodeC));
  EXPECT_FALSE(pool.drain(kNodeC));
  EXPECT_EQ(names(), "node-a ");  // both workers fit there
  scaling.placement_strategy = PlacementStrategy::StrictSpread;
  EXPECT_EQ(names(), "node-a node-b ");  // they do not, and one of them is better than none
  pool.up(node_up(kNodeC));              // no longer draining
  EXPECT_EQ(names(), "node-a node-c ");
  pool.down(kNodeC);
  EXPECT_FALSE(pool.may_grow());  // the launcher had waited for it
  EXPECT_EQ(pool.name(kNodeC), "node-c");
  EXPECT_EQ(pool.name(NodeId{7}), "node 7");
}

RankTable reporting() {
  RankTable ranks(both());
  for (int rank = 0; rank < 2; ++rank) {
    ranks.change(Rank{rank}, [](auto& entry) {
      entry.joined = true;
      entry.reported = 1;
    });
  }
  return ranks;
}

TEST(GroupGrowth, AsksOnceTheNewsAreStableAndThereIsStillRoom) {
  GroupGrowth growth;
  const RankTable ranks = reporting();
  int fit = 3, counted = 0;
  const auto capacity = [&] { return ++counted, fit; };
  growth.attempt_began();
  EXPECT_EQ(growth.advance(ranks, capacity, kStart), std::nullopt);
  EXPECT_EQ(growth.next_deadline(kStart), kStart + kGrowDelay);
  growth.capacity_changed();
  EXPECT_EQ(growth.advance(ranks, capacity, kStart + seconds(1)), std::nullopt);
  EXPECT_EQ(growth.advance(ranks, capacity, kStart + kGrowDelay), std::nullopt);
  EXPECT_EQ(counted, 0);
  fit = 4;
  EXPECT_EQ(growth.advance(ranks, capacity, kStart + seconds(1) + kGrowDelay), 4);

  growth.capacity_changed();
  growth.advance(ranks, capacity, kStart);
  fit = 2;
  EXPECT_EQ(growth.advance(ranks, capacity, kStart + kGrowDelay), std::nullopt);
  EXPECT_EQ(growth.next_deadline(kStart), std::nullopt);
}

TEST(GroupGrowth, AsksNobodyWhoCannotStopWithoutLosingWork) {
  const auto capacity = [] { return 3; };
  GroupGrowth growth;
  growth.attempt_began();
  const RankTable silent(both());
  growth.advance(silent, capacity, kStart);
  EXPECT_EQ(growth.advance(silent, capacity, kStart + kGrowDelay), std::nullopt);
  RankTable ended = reporting();
  ended.ended(Rank{0}, exited(0));
  EXPECT_EQ(growth.advance(ended, capacity, kStart + kGrowDelay), std::nullopt);
  EXPECT_EQ(growth.advance(reporting(), capacity, kStart + kGrowDelay), std::nullopt);  // only once
}

TEST(StandbyPool, StartsThemOnceTheGroupHasMadeProgressOrHadAMoment) {
  StandbyPool pool(3);
  const auto any = [](NodeId) { return true; };
  RankTable ranks = reporting();
  ranks.change(Rank{1}, [](auto& entry) { entry.joined = false; });
  EXPECT_TRUE(pool.advance(ranks, true, any, kStart).empty());
  ranks.change(Rank{1}, [](auto& entry) { entry.joined = true; });
  EXPECT_TRUE(pool.advance(ranks, false, any, kStart).empty());
  EXPECT_EQ(pool.next_deadline(), kStart + kStandbyDelay);

  EXPECT_EQ(pool.advance(ranks, false, any, kStart + kStandbyDelay),
            (std::vector<NodeId>{kNodeA, kNodeB}));

  EXPECT_EQ(pool.waiting_on(kNodeA), 2);
  EXPECT_EQ(pool.waiting_on(kNodeB), 1);
  EXPECT_EQ(pool.next_deadline(), std::nullopt);
  EXPECT_TRUE(pool.advance(ranks, true, any, kStart + seconds(9)).empty());
  EXPECT_TRUE(pool.forget(kNodeB));
  EXPECT_FALSE(pool.forget(kNodeB));
  EXPECT_EQ(pool.attempt_began(), std::vector<NodeId>{kNodeA});
  EXPECT_EQ(pool.waiting_on(kNodeA), 0);
  EXPECT_EQ(pool.advance(
                ranks, true, [](NodeId node) { return node == kNodeB; }, kStart),
            std::vector<NodeId>{kNodeB});
}

TEST(StandbyPool, SaysOnceThatAProgramWithoutTheSdkCannotUseThem) {
  StandbyPool pool(1), none(0);
  const RankTable silent(both());
  EXPECT_FALSE(none.was_useless(silent));
  EXPECT_FALSE(pool.was_useless(reporting()));
  EXPECT_TRUE(pool.was_useless(silent));
  EXPECT_FALSE(pool.was_useless(silent));
}

}  // namespace
}  // namespace train
