#include "launcher/core/placement.h"

#include <gtest/gtest.h>

namespace train {
namespace {

NodeCapacity node(int id, double cpu, double gpu = 0) {
  const Resources has{.cpu = cpu, .gpu = gpu, .custom = {}};
  return {NodeId{id}, "node-" + std::to_string(id), has, has};
}

ScalingConfig workers(int min, int max, PlacementStrategy strategy = PlacementStrategy::Pack) {
  ScalingConfig scaling;
  scaling.num_workers = {min, max};
  scaling.placement_strategy = strategy;
  return scaling;
}

PlacedNode placed(int id, int node_rank, int first_rank, int count) {
  return {NodeId{id}, NodeRank{node_rank}, Rank{first_rank}, count};
}

struct Case {
  const char* what;
  PlacementStrategy strategy;
  int min, max;
  std::vector<double> cpus;          // of the nodes
  std::vector<PlacedNode> expected;  // empty: does not fit
};

class Places : public testing::TestWithParam<Case> {};

TEST_P(Places, WorkersOnNodes) {
  std::vector<NodeCapacity> nodes;
  for (const double cpu : GetParam().cpus)
    nodes.push_back(node(static_cast<int>(nodes.size()), cpu));

  const Placement placement =
      place(workers(GetParam().min, GetParam().max, GetParam().strategy), nodes, nodes.size());

  EXPECT_EQ(placement.nodes, GetParam().expected);
}

constexpr auto kPack = PlacementStrategy::Pack, kSpread = PlacementStrategy::Spread,
               kStrictPack = PlacementStrategy::StrictPack,
               kStrictSpread = PlacementStrategy::StrictSpread;
INSTANTIATE_TEST_SUITE_P(
    Table, Places,
    testing::Values(
        Case{"PackTakesTheFirstNodeThatTakesAll", kPack, 4, 4, {2, 4, 8}, {placed(1, 0, 0, 4)}},
        Case{"PackFillsTheRoomiestFirstAndKeepsTheirOrder",
             kPack,
             7,
             7,
             {2, 4, 3},
             {placed(1, 0, 0, 4), placed(2, 1, 4, 3)}},
        Case{"PackLeavesOutWhatIsNotNeeded",
             kPack,
             5,
             5,
             {4, 1, 4},
             {placed(0, 0, 0, 4), placed(2, 1, 4, 1)}},
        Case{"SpreadGoesRound",
             kSpread,
             5,
             5,
             {4, 4, 4},
             {placed(0, 0, 0, 2), placed(1, 1, 2, 2), placed(2, 2, 4, 1)}},
        Case{"SpreadPassesOverFullNodes",
             kSpread,
             5,
             5,
             {1, 4, 4},
             {placed(0, 0, 0, 1), placed(1, 1, 1, 2), placed(2, 2, 3, 2)}},
        Case{"StrictPackInsistsOnOneNode", kStrictPack, 4, 4, {3, 4}, {placed(1, 0, 0, 4)}},
        Case{"StrictPackDoesNotSplit", kStrictPack, 5, 5, {4, 4}, {}},
        Case{"StrictSpreadTakesOneEach",
             kStrictSpread,
             2,
             2,
             {8, 8, 8},
             {placed(0, 0, 0, 1), placed(1, 1, 1, 1)}},
        Case{"StrictSpreadNeedsANodeForEach", kStrictSpread, 3, 3, {8, 8}, {}},
        Case{"ElasticTakesAsManyAsFit",
             kPack,
             2,
             8,
             {3, 2},
             {placed(0, 0, 0, 3), placed(1, 1, 3, 2)}},
        Case{"ElasticNeverTakesMoreThanMax", kPack, 2, 4, {8, 8}, {placed(0, 0, 0, 4)}},
        Case{"ElasticNeedsItsMin", kPack, 6, 8, {3, 2}, {}},
        Case{"ElasticStrictPackShrinksToTheRoomiestNode",
             kStrictPack,
             2,
             8,
             {3, 5},
             {placed(1, 0, 0, 5)}}),
    [](const auto& info) { return info.param.what; });

// ---- the same number on each node

ScalingConfig whole_nodes(int min, int max, int per_node) {
  ScalingConfig scaling = workers(min, max);
  scaling.workers_per_node = per_node;
  return scaling;
}

TEST(WorkersPerNode, NodesTakeThatManyEachHoweverRoomy) {
  const Placement placement = place(whole_nodes(4, 4, 2), {node(0, 8), node(1, 1), node(2, 64)}, 3);
  EXPECT_EQ(placement.nodes, (std::vector{placed(0, 0, 0, 2), placed(2, 1, 2, 2)}));
}

TEST(WorkersPerNode, AnElasticGroupGrowsByWholeNodes) {
  const ScalingConfig scaling = whole_nodes(2, 6, 2);
  EXPECT_EQ(place(scaling, {node(0, 3)}, 3).world_size, 2);
  EXPECT_EQ(place(scaling, {node(0, 3), node(1, 3)}, 3).world_size, 4);
  EXPECT_EQ(place(scaling, {node(0, 3), node(1, 3), node(2, 3), node(3, 3)}, 4).world_size, 6);
}

TEST(WorkersPerNode, ClaimsOfNothingDoNotPutMoreOnANode) {
  ScalingConfig scaling = whole_nodes(4, 4, 2);
  scaling.resources_per_worker.cpu = 0;
  EXPECT_EQ(place(scaling, {node(0, 1), node(1, 1)}, 2).nodes,
            (std::vector{placed(0, 0, 0, 2), placed(1, 1, 2, 2)}));
}

TEST(WorkersPerNode, WhatIsLackingIsSaid) {
  const Placement placement = place(whole_nodes(4, 4, 2), {node(0, 8), node(1, 1)}, 2);
  EXPECT_EQ(placement.world_size, 0);
  EXPECT_TRUE(placement.never);
  EXPECT_EQ(placement.reason,
            "4 workers with CPU 1 each are needed (PACK, 2 on each node), 2 fit: node-0 has CPU 8 "
            "(room for 2); node-1 has CPU 1 (room for 0)");
}

// ---- after a previous attempt

struct Again {
  const char* what;
  PlacementStrategy strategy;
  int min, max;
  std::vector<double> cpus;        // of the nodes; 0: the node is gone
  std::vector<PlacedNode> before;  // of the previous attempt
  std::vector<PlacedNode> expected;
};

class PlacesAgain : public testing::TestWithParam<Again> {};

TEST_P(PlacesAgain, RanksStayOnTheirNodes) {
  std::vector<NodeCapacity> nodes;
  for (std::size_t i = 0; i < GetParam().cpus.size(); ++i) {
    if (GetParam().cpus[i] > 0) nodes.push_back(node(static_cast<int>(i), GetParam().cpus[i]));
  }
  Placement before;
  before.nodes = GetParam().before;

  const Placement placement = place(workers(GetParam().min, GetParam().max, GetParam().strategy),
                                    nodes, nodes.size(), before);

  EXPECT_EQ(placement.nodes, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PlacesAgain,
    testing::Values(Again{"TheSameNodesInTheSameOrder",
                          kSpread,
                          3,
                          3,
                          {4, 4, 4},
                          {placed(2, 0, 0, 1), placed(0, 1, 1, 1), placed(1, 2, 2, 1)},
                          {placed(2, 0, 0, 1), placed(0, 1, 1, 1), placed(1, 2, 2, 1)}},
                    Again{"ASpareNodeTakesTheRanksOfTheLostOne",
                          kSpread,
                          2,
                          2,
                          {0, 4, 4},
                          {placed(0, 0, 0, 1), placed(1, 1, 1, 1)},
                          {placed(2, 0, 0, 1), placed(1, 1, 1, 1)}},
                    Again{"ANodeThatCameMeanwhileIsLeftOut",
                          kStrictSpread,
                          2,
                          2,
                          {4, 4, 4},
                          {placed(1, 0, 0, 1), placed(2, 1, 1, 1)},
                          {placed(1, 0, 0, 1), placed(2, 1, 1, 1)}},
                    Again{"PackStaysOnItsNodeWhereAnotherTakesAllToo",
                          kPack,
                          4,
                          4,
                          {4, 4, 8},
                          {placed(1, 0, 0, 4)},
                          {placed(1, 0, 0, 4)}},
                    Again{"SoDoesStrictPack",
                          kStrictPack,
                          2,
                          2,
                          {4, 4},
                          {placed(1, 0, 0, 2)},
                          {placed(1, 0, 0, 2)}},
                    Again{"PackStillTakesAsFewNodesAsItCan",
                          kPack,
                          4,
                          4,
                          {2, 2, 4},
                          {placed(0, 0, 0, 2), placed(1, 1, 2, 2)},
                          {placed(2, 0, 0, 4)}},
                    Again{"TheHeirHadAsManyWorkers",
                          kPack,
                          6,
                          6,
                          {0, 2, 1, 3},
                          {placed(0, 0, 0, 1), placed(1, 1, 1, 2), placed(4, 2, 3, 3)},
                          {placed(2, 0, 0, 1), placed(1, 1, 1, 2), placed(3, 2, 3, 3)}},
                    Again{"AShrunkGroupClosesTheGap",
                          kSpread,
                          2,
                          3,
                          {1, 0, 1},
                          {placed(0, 0, 0, 1), placed(1, 1, 1, 1), placed(2, 2, 2, 1)},
                          {placed(0, 0, 0, 1), placed(2, 1, 1, 1)}},
                    Again{"AGrownGroupAppends",
                          kSpread,
                          2,
                          3,
                          {1, 1, 1},
                          {placed(1, 0, 0, 1), placed(2, 1, 1, 1)},
                          {placed(1, 0, 0, 1), placed(2, 1, 1, 1), placed(0, 2, 2, 1)}}),
    [](const auto& info) { return info.param.what; });

TEST(WorkersThatFit, CountsEachResource) {
  const Resources has{.cpu = 8, .gpu = 2, .memory_bytes = 10u << 20, .custom = {{"tpu", 3}}};

  EXPECT_EQ(workers_that_fit(has, {.cpu = 1, .custom = {}}, 100), 8);
  EXPECT_EQ(workers_that_fit(has, {.cpu = 1, .gpu = 1, .custom = {}}, 100), 2);
  EXPECT_EQ(workers_that_fit(has, {.cpu = 1, .memory_bytes = 3u << 20, .custom = {}}, 100), 3);
  EXPECT_EQ(workers_that_fit(has, {.cpu = 0, .custom = {{"tpu", 1.5}}}, 100), 2);
  EXPECT_EQ(workers_that_fit(has, {.cpu = 0, .custom = {{"none of this", 1}}}, 100), 0);
  EXPECT_EQ(workers_that_fit(has, {.cpu = 0, .custom = {}}, 100), 100);
}

TEST(WorkersThatFit, FractionsAddUpToAWhole) {
  EXPECT_EQ(workers_that_fit({.cpu = 1, .custom = {}}, {.cpu = 0.1, .custom = {}}, 100), 10);
  EXPECT_EQ(workers_that_fit({.cpu = 4, .gpu = 1, .custom = {}},
                             {.cpu = 1, .gpu = 0.5, .custom = {}}, 100),
            2);
  EXPECT_EQ(workers_that_fit({.cpu = 0.9, .custom = {}}, {.cpu = 1, .custom = {}}, 100), 0);
}

TEST(Placement, WaitsForWhatIsOnlyTakenNow) {
  NodeCapacity busy = node(0, 8);
  busy.free.cpu = 1;

  const Placement placement = place(workers(4, 4), {busy}, 1);

  EXPECT_EQ(placement, (Placement{.world_size = 0,
                                  .nodes = {},
                                  .reason = "4 workers with CPU 1 each are needed (PACK), 1 fit: "
                                            "node-0 has free CPU 1 (room for 1)",
                                  .never = false}));
}

TEST(Placement, SaysNeverWhenTheWholeClusterIsTooSmall) {
  ScalingConfig scaling = workers(2, 2, PlacementStrategy::StrictSpread);
  scaling.resources_per_worker = {
      .cpu = 2, .gpu = 1, .memory_bytes = 1u << 30, .custom = {{"nic", 1}}};

  const Placement placement = place(scaling, {node(0, 4, 1)}, 1);

  EXPECT_EQ(placement.never, true);
  EXPECT_EQ(placement.reason,
            "2 workers with CPU 2, GPU 1, memory 1024 MiB, nic 1 each are needed (STRICT_SPREAD), "
            "0 fit: node-0 has CPU 4, GPU 1, memory 0 "
            "MiB, nic 0 (room for 0)");
}

TEST(Placement, WaitsWhereTheMinimumFitsOnceOthersAreGone) {
  NodeCapacity busy = node(0, 6);
  busy.free.cpu = 1;

  const Placement placement = place(workers(4, 8), {busy}, 1);

  EXPECT_EQ(placement.world_size, 0);
  EXPECT_EQ(placement.never, false);
}

TEST(Placement, SaysThatANodeHasNoGpuWhereOneIsNeeded) {
  ScalingConfig scaling = workers(1, 1);
  scaling.resources_per_worker.gpu = 1;

  EXPECT_EQ(place(scaling, {node(0, 4)}, 1).reason,
            "1 workers with CPU 1, GPU 1 each are needed (PACK), 0 fit: node-0 has CPU 4, GPU 0 "
            "(room for 0)");
}

TEST(Placement, IsNeverSureBeforeAllNodesHaveAnswered) {
  const Placement placement = place(workers(4, 4), {node(0, 2)}, 2);

  EXPECT_EQ(placement.world_size, 0);
  EXPECT_EQ(placement.never, false);
}

TEST(Placement, HasAnAnswerForNoNodes) {
  EXPECT_EQ(
      place(workers(1, 1), {}, 1),
      (Placement{.world_size = 0,
                 .nodes = {},
                 .reason = "1 workers with CPU 1 each are needed (PACK), 0 fit: no node answers",
                 .never = false}));
}

std::vector<NodeCapacity> many_nodes(int count, double cpu) {
  std::vector<NodeCapacity> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(node(i, cpu));
  return nodes;
}

TEST(Placement, NamesOnlyTheFirstOfManyNodes) {
  EXPECT_EQ(place(workers(10, 10), many_nodes(9, 1), 9).reason,
            "10 workers with CPU 1 each are needed (PACK), 9 fit: node-0 has CPU 1 (room for 1); "
            "node-1 has CPU 1 (room for 1); node-2 has CPU 1 (room for 1); node-3 has CPU 1 (room "
            "for 1); node-4 has CPU 1 (room for 1); node-5 has CPU 1 (room for 1); node-6 has CPU "
            "1 (room for 1); node-7 has CPU 1 (room for 1); 1 more node");
}

// ---- ingest workers beside the ranks

std::vector<IngestNeed> ingest(int min, int max, double cpu, const std::string& name = "train") {
  IngestSpec spec;
  spec.workers = {min, max};
  spec.resources_per_worker = {.cpu = cpu, .custom = {}};
  return {{name, spec}};
}

TEST(PlacesIngest, InTurnOnTheNodesOfTheRanksAsManyAsFit) {
  const std::vector<NodeCapacity> nodes{node(0, 4), node(1, 2), node(2, 8)};

  const Placement placement = place(workers(2, 2, kStrictSpread), nodes, 3, {}, ingest(1, 8, 1));

  EXPECT_EQ(placement.world_size, 2);
  EXPECT_EQ(placement.ingest, (std::vector<PlacedIngest>{{"train", 1, NodeId{0}},
                                                         {"train", 2, NodeId{1}},
                                                         {"train", 3, NodeId{0}},
                                                         {"train", 4, NodeId{0}}}));
}

TEST(PlacesIngest, NoMoreThanTheGreatestNumberOfEachDataset) {
  auto needs = ingest(1, 2, 1, "a");
  needs.push_back(ingest(2, 3, 0.5, "b").front());

  const Placement placement = place(workers(1, 1), {node(0, 16)}, 1, {}, needs);

  EXPECT_EQ(placement.ingest.size(), 5u);
  const Resources claim = ingest_claim(placement, NodeId{0}, needs);
  EXPECT_EQ(claim.cpu, 2 * 1 + 3 * 0.5);
  EXPECT_EQ(ingest_claim(placement, NodeId{1}, needs).cpu, 0);
}

TEST(PlacesIngest, FewerRanksIfTheLeastNumberWouldNotFit) {
  const Placement placement = place(workers(1, 4), {node(0, 4)}, 1, {}, ingest(2, 2, 1));

  EXPECT_EQ(placement.world_size, 2);
  EXPECT_EQ(placement.ingest.size(), 2u);
}

TEST(PlacesIngest, SaysWhatIsMissingAndWaitsOnlyForWhatMayCome) {
  std::vector<NodeCapacity> nodes{node(0, 4)};

  const Placement never = place(workers(3, 3), nodes, 1, {}, ingest(2, 4, 1));
  nodes[0].total.cpu = 8;
  const Placement later = place(workers(3, 3), nodes, 1, {}, ingest(2, 4, 1));

  EXPECT_EQ(never.world_size, 0);
  EXPECT_TRUE(never.never);
  EXPECT_EQ(never.reason,
            "2 ingest workers for train with CPU 1 each are needed beside 3 workers, which leave: "
            "node-0 CPU 1, memory 0 MiB");
  EXPECT_EQ(later.world_size, 0);
  EXPECT_FALSE(later.never);
}

TEST(PlacesIngest, OnTheNodesThatTheSpecNamesInTurn) {
  std::vector<NodeCapacity> nodes{node(0, 4), node(1, 4), node(2, 2), node(3, 8)};
  nodes[3].address = "cpu-3:7070";
  auto needs = ingest(1, 5, 1);
  needs[0].spec.nodes = {"node-2", "cpu-3:7070", "nobody"};

  const Placement placement = place(workers(2, 2, kStrictSpread), nodes, 4, {}, needs);

  EXPECT_EQ(placement.nodes, (std::vector<PlacedNode>{placed(0, 0, 0, 1), placed(1, 1, 1, 1)}));
  EXPECT_EQ(placement.ingest, (std::vector<PlacedIngest>{{"train", 1, NodeId{2}},
                                                         {"train", 2, NodeId{3}},
                                                         {"train", 3, NodeId{2}},
                                                         {"train", 4, NodeId{3}},
                                                         {"train", 5, NodeId{3}}}));
  EXPECT_EQ(ingest_claim(placement, NodeId{3}, needs).cpu, 3);
}

TEST(PlacesIngest, OnAnyNode) {
  auto needs = ingest(1, 4, 1);
  needs[0].spec.nodes = {"any"};

  const Placement placement =
      place(workers(1, 1), {node(0, 2), node(1, 1), node(2, 2)}, 3, {}, needs);

  EXPECT_EQ(placement.nodes, (std::vector<PlacedNode>{placed(0, 0, 0, 1)}));
  EXPECT_EQ(placement.ingest, (std::vector<PlacedIngest>{{"train", 1, NodeId{0}},
                                                         {"train", 2, NodeId{1}},
                                                         {"train", 3, NodeId{2}},
                                                         {"train", 4, NodeId{2}}}));
}

TEST(PlacesIngest, SaysWhichNodesAreMissing) {
  auto needs = ingest(1, 2, 1);
  needs[0].spec.nodes = {"cpu-1:7070", "cpu-2"};

  const Placement waits = place(workers(1, 1), {node(0, 4)}, 2, {}, needs);
  const Placement never = place(workers(1, 1), {node(0, 4)}, 1, {}, needs);

  EXPECT_EQ(waits.world_size, 0);
  EXPECT_FALSE(waits.never);
  EXPECT_TRUE(never.never);
  EXPECT_EQ(never.reason,
            "1 ingest worker for train with CPU 1 each is needed on cpu-1:7070, cpu-2, and no such "
            "node is there");
}

// Fewer ranks free room, and take nodes away where ingest workers might run.
TEST(PlacesIngest, TriesEachNumberOfRanks) {
  EXPECT_EQ(
      place(workers(1, 512, kSpread), many_nodes(256, 2), 256, {}, ingest(250, 250, 1)).world_size,
      262);
  EXPECT_EQ(place(workers(1, 256), many_nodes(2, 128), 2, {}, ingest(1, 1, 127)).world_size, 129);
  EXPECT_TRUE(place(workers(1, 512), many_nodes(256, 2), 256, {}, ingest(1, 1, 2)).never);
}

// Each number would take minutes: it is found in larger steps, and what is not found may be there.
TEST(PlacesIngest, FindsTheMostOfManyRanks) {
  std::vector<IngestNeed> needs;
  for (const char* name : {"a", "b", "c"}) {
    needs.push_back(ingest(256, 256, 1, name).front());
    needs.back().spec.nodes = {"any"};
  }
  const std::vector<NodeCapacity> nodes = many_nodes(8192, 8);

  EXPECT_EQ(place(workers(1, kWorkersMax), nodes, 8192, {}, needs).world_size, 8192 * 8 - 768);

  for (IngestNeed& need : needs) need.spec.resources_per_worker.cpu = 9;
  const Placement none = place(workers(1, kWorkersMax), nodes, 8192, {}, needs);
  EXPECT_EQ(none.world_size, 0);
  EXPECT_FALSE(none.never);
}

TEST(PlacesIngest, NamesOnlyTheFirstOfManyNodes) {
  auto needs = ingest(1, 1, 9);
  needs[0].spec.nodes = {"any"};

  EXPECT_TRUE(place(workers(1, 1), many_nodes(1000, 8), 1000, {}, needs)
                  .reason.ends_with("node-7 CPU 8, memory 0 MiB; 992 more nodes"));
}

TEST(PlacesIngest, WithoutAClaimTheyFitAnywhere) {
  const Placement placement = place(workers(4, 4), {node(0, 4)}, 1, {}, ingest(1, 3, 0));

  EXPECT_EQ(placement.ingest.size(), 3u);
}

}  // namespace
}  // namespace train
