// Ingest workers within the life of an attempt: placed, ordered, found again, and never a failure.
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

}  // namespace
}  // namespace train
