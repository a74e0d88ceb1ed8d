// RunController has nodes keep room for a run that waits, and for the next attempt of its workers.
#include <limits>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

/// A node with four cores, so many of which are free.
NodeUp node_with(NodeId id, double free) {
  NodeUp event = node_up(id);
  event.capacity.free.cpu = free;
  return event;
}

JobSpec three_workers() {
  JobSpec spec;
  spec.scaling_config.num_workers = {3, 3};
  spec.scaling_config.resources_per_worker.cpu = 2;
  spec.run_config.priority = 7;
  return spec;
}

struct Waiting : Driven {
  explicit Waiting(JobSpec spec = three_workers())
      : Driven(std::move(spec),
               {.checkpoint = {}, .expected_nodes = 2, .run_id = "r", .asked_ms = 1000}) {}
};

constexpr QueuePlace kPlace{.priority = 7, .since_ms = 1000};

TEST(RoomClaims, ARunThatWaitsHasEachNodeKeepWhatItCouldUseThere) {
  Waiting d;
  d.handle(node_with(kNodeA, 0));

  EXPECT_EQ(d.room(node_with(kNodeB, 4)),
            (std::vector<KeepRoom>{{kNodeA, kPlace, 3, 2}, {kNodeB, kPlace, 3, 2}}));
  NodeUp news = node_with(kNodeB, 3);
  news.attached = false;
  EXPECT_EQ(d.room(news), std::vector<KeepRoom>{});  // they know it already
}

TEST(RoomClaims, KeepsNothingWhileTheNodesAreTooFewEvenIfTheyWereFree) {
  JobSpec spec = three_workers();
  spec.scaling_config.num_workers = {5, 5};
  Waiting d(spec);
  d.handle(node_with(kNodeA, 4));
  EXPECT_EQ(d.room(Tick{}, kAllNodesWait), (std::vector<KeepRoom>{{kNodeA, kPlace, 5, 0}}));
}

TEST(RoomClaims, KeepsRoomForTheLeastNumberOfAnElasticGroup) {
  JobSpec spec = three_workers();
  spec.scaling_config.num_workers = {1, 8};
  Waiting d(spec);
  d.handle(node_with(kNodeA, 0));
  EXPECT_EQ(d.room(node_with(kNodeB, 0)),
            (std::vector<KeepRoom>{{kNodeA, kPlace, 1, 1}, {kNodeB, kPlace, 1, 1}}));
}

TEST(RoomClaims, TheStrategyDecidesWhatANodeKeeps) {
  const auto kept = [](PlacementStrategy strategy, int workers) {
    ScalingConfig scaling;
    scaling.num_workers = {workers, workers};
    scaling.resources_per_worker.cpu = 1;
    scaling.placement_strategy = strategy;
    NodeCapacity small{NodeId{0}, "a", {.cpu = 2, .custom = {}}, {}};
    NodeCapacity large{NodeId{1}, "b", {.cpu = 8, .custom = {}}, {}};
    return rooms_when_free(scaling, {small, large});
  };
  using Rooms = std::map<NodeId, int>;
  EXPECT_EQ(kept(PlacementStrategy::Pack, 4), (Rooms{{NodeId{0}, 2}, {NodeId{1}, 4}}));
  EXPECT_EQ(kept(PlacementStrategy::StrictPack, 4), (Rooms{{NodeId{1}, 4}}));
  EXPECT_EQ(kept(PlacementStrategy::StrictSpread, 2), (Rooms{{NodeId{0}, 1}, {NodeId{1}, 1}}));
  EXPECT_EQ(kept(PlacementStrategy::StrictSpread, 3), Rooms{});
  EXPECT_EQ(kept(PlacementStrategy::Spread, 11), Rooms{});
}

JobSpec one_worker_with_ingest() {
  JobSpec spec = three_workers();
  spec.scaling_config.num_workers = {1, 1};
  spec.datasets["train"].ingest.workers = {2, 3};
  return spec;
}

TEST(RoomClaims, AnIngestWorkerNeedsRoomToo) {
  Waiting d(one_worker_with_ingest());
  d.handle(node_with(kNodeA, 0));
  const auto told = d.room(node_with(kNodeB, 0));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].ingest.cpu, 2);
}

TEST(RoomClaims, IngestWorkersThatMayBeElsewhereHaveTheirRoomThere) {
  JobSpec spec = one_worker_with_ingest();
  spec.datasets["train"].ingest.nodes = {"node-b"};
  Waiting d(spec);
  d.handle(node_with(kNodeA, 0));
  auto told = d.room(node_with(kNodeB, 0));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].ingest.cpu, 0);
  EXPECT_EQ(told[1].ingest.cpu, 2);
}

TEST(RoomClaims, KeepsNothingWhileTheNodeOfItsIngestWorkersIsAway) {
  JobSpec spec = one_worker_with_ingest();
  spec.datasets["train"].ingest.nodes = {"node-b"};
  Waiting d(spec);
  d.handle(node_with(kNodeA, 4));
  EXPECT_EQ(d.room(Tick{}, kAllNodesWait), (std::vector<KeepRoom>{{kNodeA, kPlace, 1, 0}}));
}

TEST(RoomClaims, ANodeWithIngestWorkersOnlyKeepsTheirRoom) {
  JobSpec spec = one_worker_with_ingest();
  RoomClaims room(spec, "r", false, 0);
  Placement placement{.world_size = 1, .nodes = {on_a()}, .reason = ""};
  placement.ingest = {{"train", 1, kNodeB}, {"train", 2, kNodeA}};
  const auto told = room.placed(placement);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].ingest.cpu, 1);
  EXPECT_EQ(told[1].workers_here, 0);
  EXPECT_EQ(told[1].ingest.cpu, 1);
  EXPECT_EQ(told[1].workers, 1);
}

TEST(RoomClaims, OnceThereAreWorkersTheirNodesKeepTheirRoom) {
  Driven d;
  d.nodes();
  d.prepared(kFirst);
  d.handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}}});
  const QueuePlace placed{.placed = true, .begun = true};
  EXPECT_EQ(d.room(AttemptStarted{kFirst, kNodeB, {{Rank{1}, 100}}}),
            (std::vector<KeepRoom>{{kNodeA, placed, 2, 1}, {kNodeB, placed, 2, 1}}));
  EXPECT_EQ(d.room(RankJoined{kFirst, Rank{0}}), std::vector<KeepRoom>{});
}

TEST(RoomClaims, ANodeThatTookTheRunUpAgainIsToldAgain) {
  Driven d;
  d.running();
  const QueuePlace placed{.placed = true, .begun = true};
  EXPECT_EQ(d.room(node_up(kNodeB, {kFirst})), (std::vector<KeepRoom>{{kNodeB, placed, 2, 1}}));
  NodeUp news = node_up(kNodeB, {kFirst});
  news.attached = false;
  EXPECT_EQ(d.room(news), std::vector<KeepRoom>{});
}

/// Lose a node of two workers, so that the next attempt is due.
void lose_node_b(Driven& d) {
  d.handle(NodeDown{kNodeB, "no heartbeat"});
  d.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
}

TEST(RoomClaims, TheNextAttemptChangesWhatIsKeptEvenIfItDoesNotWait) {
  Driven d(two_workers(/*max_failures=*/3));
  d.running();
  lose_node_b(d);
  EXPECT_EQ(d.room(NodeGroupGone{kFirst, kNodeA}), (std::vector<KeepRoom>{{kNodeB}}));
  ASSERT_EQ(d.run.state(), RunState::Preparing);  // A keeps the room of one worker until both run
  d.handle(AttemptPrepared{kSecond, kNodeA, 41000});
  EXPECT_EQ(d.room(AttemptStarted{kSecond, kNodeA, {{Rank{0}, 100}, {Rank{1}, 101}}}),
            (std::vector<KeepRoom>{{kNodeA, {.placed = true, .begun = true}, 2, 2}}));

  // The node that was lost may still keep room for the first attempt.
  EXPECT_EQ(d.room(node_up(kNodeB), seconds(2)), (std::vector<KeepRoom>{{kNodeB}}));
}

TEST(RoomClaims, AfterAFailureItWaitsBeforeRunsThatHaveNotBegun) {
  Driven d(two_workers(/*max_failures=*/3));
  d.running();
  NodeUp news = node_with(kNodeA, 1);  // others have taken the rest
  news.attached = false;
  d.handle(news);
  lose_node_b(d);
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const QueuePlace begun{.begun = true};
  const auto told = d.room(node_with(kNodeB, 0), seconds(91));
  EXPECT_EQ(told, (std::vector<KeepRoom>{{kNodeB}, {kNodeB, begun, 2, 2}}));
}

TEST(RoomClaims, WhileWorkersStartOnlyTheirNodesKeepRoom) {
  Waiting d;
  for (const NodeId node : {kNodeA, kNodeB, kNodeC}) d.handle(node_with(node, 0));
  for (const NodeId node : {kNodeA, kNodeB}) {
    NodeUp news = node_with(node, 4);
    news.attached = false;
    const auto told = d.room(news);
    if (node == kNodeB)  // now it has three workers' room
      EXPECT_EQ(told, (std::vector<KeepRoom>{{kNodeB, kPlace, 3, 1}, {kNodeC}}));
  }
  ASSERT_EQ(d.run.state(), RunState::Preparing);

  // Another run was faster on one of them: what is left is kept again at once.
  d.handle(StartRefused{kFirst, kNodeA, Rank{0}, Error{Errc::ResourceExhausted, "x"}, true});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.room(NodeGroupGone{kFirst, kNodeB}),
            (std::vector<KeepRoom>{{kNodeB, kPlace, 3, 2}, {kNodeC, kPlace, 3, 2}}));
  EXPECT_EQ(d.run.state(), RunState::Scheduling);
}

TEST(RoomClaims, AtTheEndNothingIsKept) {
  Driven d;
  d.running();
  for (int rank = 0; rank < 2; ++rank) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(d.room(NodeGroupGone{kFirst, kNodeB}), (std::vector<KeepRoom>{{kNodeA}, {kNodeB}}));
}

TEST(RoomClaims, TheShareIsWhatTheOwnerHasAndWantsOfTheScarcestResource) {
  Waiting d;
  NodeUp a = node_with(kNodeA, 0), b = node_with(kNodeB, 0);
  a.capacity.total.gpu = 1;
  b.capacity.total.gpu = 3;
  a.owner_has = {.cpu = 1, .gpu = 1};
  b.owner_has = {.cpu = 1};
  a.owner_wants = b.owner_wants = {.cpu = 1, .gpu = 1};  // the same runs
  d.handle(a);
  auto told = d.room(b);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].place.share, 500);  // two of four GPUs; of the cores, three of eight
  b.attached = false;
  b.owner_wants = {.gpu = 100};
  told = d.room(b);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].place.share, 25'250);

  b.owner_wants = {.gpu = 100.1};  // 25,275 thousandths: too little to tell anybody
  EXPECT_EQ(d.room(b), std::vector<KeepRoom>{});
}

TEST(RoomClaims, WhateverANodeSaysTheShareIsOneThatOthersAccept) {
  for (const double said : {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), -1e300, 1e300}) {
    Waiting d;
    NodeUp a = node_with(kNodeA, 0);
    a.owner_has.cpu = said;
    d.handle(a);
    const auto told = d.room(node_with(kNodeB, 0));
    ASSERT_EQ(told.size(), 2u);
    EXPECT_GE(told[0].place.share, 0) << said;
    EXPECT_LE(told[0].place.share, kShareMax) << said;
  }
}

TEST(RoomClaims, ARunThatHasWaitedLongSaysSo) {
  Waiting d;
  d.handle(node_with(kNodeA, 0));
  d.handle(node_with(kNodeB, 0));
  EXPECT_EQ(d.room(Tick{}, kWaitsLong - milliseconds(1)), std::vector<KeepRoom>{});
  const auto told = d.room(Tick{}, kWaitsLong);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0].place.waited_long);
}

TEST(RoomClaims, NewsOfTheQueueDoesNotPutGrowthOff) {
  JobSpec spec = two_workers();
  spec.scaling_config.num_workers = {1, 3};
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  Driven d(spec);
  d.running();
  d.handle(node_up(kNodeC));
  NodeUp news = node_up(kNodeB, {kFirst});
  news.attached = false;
  news.runs = {{.run_id = "x"}};
  d.handle(news, seconds(2));
  EXPECT_EQ(d.run.next_deadline(), kStart + kGrowDelay);
}

std::string note_of(const Actions& actions) {
  const auto notes = only<Note>(actions);
  return notes.empty() ? "" : notes.back().text;
}

TEST(RoomClaims, TheUserHearsWhoComesFirst) {
  Waiting d;
  NodeUp a = node_with(kNodeA, 0), b = node_with(kNodeB, 0);
  a.runs = {{.run_id = "y", .run_name = "bert", .owner = "bob", .place = {.priority = 9}},
            {.run_id = "z", .run_name = "late", .place = {.priority = 7, .since_ms = 2000}}};
  b.runs = {{.run_id = "y", .run_name = "bert", .owner = "bob", .place = {.priority = 9}}};
  d.handle(a);
  EXPECT_TRUE(note_of(d.handle(b)).ends_with("; the run bert (bob, priority 9) comes first"));
}

TEST(RoomClaims, OfManyRunsTheFirstAreNamed) {
  Waiting d;
  NodeUp a = node_with(kNodeA, 0);
  for (const char* name : {"r1", "r2", "r3", "r4", "r5"})
    a.runs.push_back({.run_id = name, .run_name = name, .place = {.priority = 8}});
  d.handle(a);
  EXPECT_TRUE(note_of(d.handle(node_with(kNodeB, 0)))
                  .ends_with("; 5 runs come first: r1 (priority 8), r2 (priority 8), "
                             "r3 (priority 8) and 2 more"));
}

TEST(RoomClaims, ANodeNamesTheFirstOfThemOnly) {
  Waiting d;
  NodeUp a = node_with(kNodeA, 0);
  for (std::size_t i = 0; i < kRunsBeforeMax; ++i) {
    const std::string name = "r" + std::to_string(i);
    a.runs.push_back({.run_id = name, .run_name = name, .place = {.priority = 8}});
  }
  d.handle(a);
  EXPECT_NE(note_of(d.handle(node_with(kNodeB, 0))).find("; at least 16 runs come first: r0"),
            std::string::npos);
}

}  // namespace
}  // namespace train
