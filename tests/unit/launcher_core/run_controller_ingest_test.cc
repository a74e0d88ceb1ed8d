// Ingest workers within the life of an attempt: placed, ordered, found again, and never a failure.
#include "launcher/core/placed_ranks.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

JobSpec with_ingest(int min = 2, int max = 2, double cpu = 1) {
  JobSpec spec = two_workers();
  spec.datasets["train"].ingest.workers = {min, max};
  spec.datasets["train"].ingest.resources_per_worker.cpu = cpu;
  return spec;
}
Placement placed_with_ingest() {
  Placement placement = both();
  placement.ingest = {{"train", 1, kNodeA}, {"train", 2, kNodeB}};
  return placement;
}
KeepIngest keep(Attempt attempt, NodeId node, int slot) {
  return {attempt, node, "train", slot, true};
}
IngestServes serves(Attempt attempt, NodeId node, int slot) {
  const std::string name = "ingest-train-000" + std::to_string(slot);
  return {attempt,
          node,
          {.dataset = "train", .slot = slot, .name = name, .socket = "/s", .flight = "h:1"}};
}

TEST(ControllerIngest, NodesPrepareWithTheClaimOfTheirIngestWorkers) {
  Driven driven(with_ingest(2, 8, 1.5));
  driven.handle(node_up(kNodeA));
  const auto prepares = only<Prepare>(driven.handle(node_up(kNodeB)));

  ASSERT_EQ(prepares.size(), 2u);  // of each node's 4 CPUs, a rank has 1
  EXPECT_EQ(prepares[0].ingest.cpu, 3.0);
  EXPECT_EQ(prepares[1].ingest.cpu, 3.0);
}

TEST(ControllerIngest, TheyAreOrderedOnceTheRanksOfTheirNodeHaveStarted) {
  Driven driven(with_ingest());
  driven.nodes();
  driven.prepared(kFirst);

  EXPECT_EQ(only<KeepIngest>(driven.handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}}})),
            (std::vector{keep(kFirst, kNodeA, 1)}));
  EXPECT_EQ(only<KeepIngest>(driven.handle(AttemptStarted{kFirst, kNodeB, {{Rank{1}, 100}}})),
            (std::vector{keep(kFirst, kNodeB, 2)}));
}

TEST(ControllerIngest, ADeathIsNoFailureOfTheRun) {
  Driven driven(with_ingest());
  driven.running();
  driven.handle(serves(kFirst, kNodeA, 1));

  const Actions actions = driven.handle(IngestGone{kFirst, kNodeA, "train", 1, "ingest-train-0001",
                                                   false, "it was killed by SIGKILL", 1});

  EXPECT_EQ(driven.run.state(), RunState::Running);
  EXPECT_TRUE(only<StopGroup>(actions).empty());
  EXPECT_EQ(only<SendRoster>(actions).size(), 2u);
  EXPECT_EQ(only<IngestChanged>(actions), (std::vector{IngestChanged{kFirst, "train", 2, 0, 1}}));
}

TEST(ControllerIngest, WhatIsOfAnotherAttemptHasNoEffect) {
  Driven driven(with_ingest());
  driven.running();

  EXPECT_TRUE(only<SendRoster>(driven.handle(serves(kSecond, kNodeA, 1))).empty());
}

TEST(ControllerIngest, WithoutRoomForTheLeastNumberTheRunWaits) {
  JobSpec spec = with_ingest(2, 2, 4);
  Driven driven(spec);
  driven.handle(node_up(kNodeA));
  const Actions actions = driven.handle(node_up(kNodeB));

  EXPECT_EQ(driven.run.state(), RunState::Errored);
  ASSERT_EQ(only<RunEnded>(actions).size(), 1u);
  EXPECT_EQ(only<RunEnded>(actions)[0].reason,
            "2 ingest workers for train with CPU 4 each are needed beside 2 workers, which leave: "
            "node-a CPU 3, memory 0 MiB; node-b CPU 3, memory 0 MiB");
}

TEST(ControllerIngest, ANewLauncherLearnsOfThemFromTheirSupervisors) {
  LivingAttempt living{.id = kFirst, .placement = placed_with_ingest()};
  living.node_names = {"node-a", "node-b"};
  Driven driven(with_ingest(), {.checkpoint = {}, .expected_nodes = 2, .living = living});
  driven.handle(node_up(kNodeA, {kFirst}));
  driven.handle(node_up(kNodeB, {kFirst}));
  SupervisorAttached a{kFirst, kNodeA}, b{kFirst, kNodeB};
  a.ranks = {{Rank{0}, true, 1}};
  b.ranks = {{Rank{1}, true, 1}};
  a.ingest = {serves(kFirst, kNodeA, 1).place};
  a.roster_version = 5;

  EXPECT_TRUE(only<SendRoster>(driven.handle(a)).empty());
  const Actions actions = driven.handle(b);

  EXPECT_EQ(driven.run.state(), RunState::Running);
  const auto rosters = only<SendRoster>(actions);
  ASSERT_EQ(rosters.size(), 2u);
  EXPECT_EQ(rosters[0].roster->version, 6u);
  EXPECT_EQ(rosters[0].roster->endpoints.size(), 1u);
  EXPECT_EQ(only<KeepIngest>(actions),
            (std::vector{keep(kFirst, kNodeA, 1), keep(kFirst, kNodeB, 2)}));
}

// ---- nodes with ingest workers and without ranks

/// Two nodes whose ranks need 4 CPUs, and a third one for ingest workers.
struct OnThird : Driven {
  OnThird() : Driven(spec(), {.checkpoint = {}, .expected_nodes = 3}) {}
  static JobSpec spec() {
    JobSpec spec = with_ingest(1, 1);
    spec.scaling_config.resources_per_worker.cpu = 4;
    spec.datasets["train"].ingest.nodes = {"node-c"};
    return spec;
  }
  OnThird& placed() {
    nodes();
    third = handle(node_up(kNodeC));
    return *this;
  }
  OnThird& training() {
    placed();
    started(kFirst);
    handle(AttemptPrepared{kFirst, kNodeC, 0});
    handle(AttemptStarted{kFirst, kNodeC, {}});
    handle(serves(kFirst, kNodeC, 1));
    return *this;
  }
  Actions third;
};

TEST(ControllerIngest, ANodeWithoutRanksPreparesAndKeepsNobodyWaiting) {
  OnThird driven;
  driven.placed();

  const auto prepares = only<Prepare>(driven.third);
  ASSERT_EQ(prepares.size(), 3u);
  EXPECT_EQ(prepares[2].placed.node, kNodeC);
  EXPECT_EQ(prepares[2].placed.local_world_size, 0);
  EXPECT_EQ(prepares[2].ingest.cpu, 1);
  driven.started(kFirst);
  EXPECT_EQ(driven.run.state(), RunState::Running);

  const auto starts = only<Start>(driven.handle(AttemptPrepared{kFirst, kNodeC, 0}));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].placed.node, kNodeC);
  EXPECT_EQ(starts[0].placement->world_size, 2);
  EXPECT_EQ(only<KeepIngest>(driven.handle(AttemptStarted{kFirst, kNodeC, {}})),
            (std::vector{keep(kFirst, kNodeC, 1)}));
  EXPECT_EQ(only<SendRoster>(driven.handle(serves(kFirst, kNodeC, 1))).size(), 2u);
}

TEST(ControllerIngest, WhereItPreparedFirstItStartsWithTheRanks) {
  OnThird driven;
  driven.placed();
  EXPECT_TRUE(only<Start>(driven.handle(AttemptPrepared{kFirst, kNodeC, 0})).empty());
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});

  const auto starts = only<Start>(driven.handle(AttemptPrepared{kFirst, kNodeB, 0}));

  ASSERT_EQ(starts.size(), 3u);
  EXPECT_EQ(starts[2].placed.node, kNodeC);
  EXPECT_EQ(ranks_on(starts[2].placed, *starts[2].placement).size(), 0u);
}

TEST(ControllerIngest, TheLossOfANodeWithoutRanksIsNoFailureAndItMayComeBack) {
  OnThird driven;
  driven.training();

  const Actions lost = driven.handle(NodeDown{kNodeC, "no heartbeat for 10s"});

  EXPECT_EQ(driven.run.state(), RunState::Running);
  EXPECT_TRUE(only<StopGroup>(lost).empty());
  ASSERT_EQ(only<SendRoster>(lost).size(), 2u);
  EXPECT_TRUE(only<SendRoster>(lost)[0].roster->endpoints.empty());
  EXPECT_EQ(only<Note>(lost),
            (std::vector{Note{NoteLevel::Warning,
                              "no ingest workers on node-c any more: the node is lost: no "
                              "heartbeat for 10s"}}));

  const auto again = only<Prepare>(driven.handle(node_up(kNodeC)));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].placed.node, kNodeC);
  EXPECT_EQ(only<Start>(driven.handle(AttemptPrepared{kFirst, kNodeC, 0})).size(), 1u);
  EXPECT_EQ(only<KeepIngest>(driven.handle(AttemptStarted{kFirst, kNodeC, {}})).size(), 1u);
}

TEST(ControllerIngest, WhatIsLeftOfALostNodesSupervisorIsReleased) {
  OnThird driven;
  driven.training();
  driven.handle(NodeDown{kNodeC, "no heartbeat for 10s"});

  const Actions back = driven.handle(node_up(kNodeC, {kFirst}));

  EXPECT_EQ(only<Release>(back), (std::vector{Release{kFirst, kNodeC}}));
  EXPECT_TRUE(only<Prepare>(back).empty());
}

TEST(ControllerIngest, WhereTheSupervisorHasEndedThereIsNoOtherInThisAttempt) {
  OnThird driven;
  driven.training();

  driven.handle(SupervisorLost{kFirst, kNodeC, "killed by signal 9"});

  EXPECT_EQ(driven.run.state(), RunState::Running);
  EXPECT_TRUE(only<Prepare>(driven.handle(node_up(kNodeC))).empty());
}

TEST(ControllerIngest, ANodeThatRefusesOrDrainsIsLeftOut) {
  OnThird refuses;
  refuses.placed();
  refuses.started(kFirst);
  const Actions refused = refuses.handle(
      StartRefused{.attempt = kFirst, .node = kNodeC, .error = {Errc::Io, "no folder"}});
  EXPECT_EQ(refuses.run.state(), RunState::Running);
  EXPECT_EQ(only<Note>(refused).size(), 1u);

  OnThird drains;
  drains.training();
  const Actions drained = drains.handle(NodeDrain{kNodeC, seconds(60), "upkeep"});
  EXPECT_EQ(drains.run.state(), RunState::Running);
  ASSERT_EQ(only<StopGroup>(drained).size(), 1u);
  EXPECT_EQ(only<StopGroup>(drained)[0].node, kNodeC);
  EXPECT_TRUE(only<SendRoster>(drained)[0].roster->endpoints.empty());
}

TEST(ControllerIngest, ANodeWithoutRanksIsReleasedWithTheAttempt) {
  OnThird driven;
  driven.training();
  driven.handle(RankExited{kFirst, Rank{0}, exited(0)});
  driven.handle(RankExited{kFirst, Rank{1}, exited(0)});
  driven.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = driven.handle(NodeGroupGone{kFirst, kNodeB});

  const auto released = only<Release>(actions);
  ASSERT_EQ(released.size(), 3u);
  EXPECT_EQ(released[2], (Release{kFirst, kNodeC}));
}

TEST(ControllerIngest, ANewLauncherFindsANodeWithoutRanks) {
  LivingAttempt living{.id = kFirst, .placement = both()};
  living.placement.ingest = {{"train", 1, kNodeC}};
  living.node_names = {"node-a", "node-b"};
  Driven driven(OnThird::spec(), {.checkpoint = {}, .expected_nodes = 3, .living = living});
  for (const NodeId node : {kNodeA, kNodeB, kNodeC}) driven.handle(node_up(node, {kFirst}));
  SupervisorAttached a{kFirst, kNodeA}, b{kFirst, kNodeB}, c{kFirst, kNodeC};
  a.ranks = {{Rank{0}, true, 1}};
  b.ranks = {{Rank{1}, true, 1}};
  c.ingest = {serves(kFirst, kNodeC, 1).place};
  driven.handle(a);
  driven.handle(b);
  EXPECT_EQ(driven.run.state(), RunState::Running);  // it does not wait for the third

  const auto rosters = only<SendRoster>(driven.handle(c));

  ASSERT_EQ(rosters.size(), 2u);
  EXPECT_EQ(rosters[0].roster->endpoints.size(), 1u);
}

}  // namespace
}  // namespace train
