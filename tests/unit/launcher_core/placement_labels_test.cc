// Where workers with label selectors, chosen GPUs or parts of GPUs go, and what `auto` means.
#include <gtest/gtest.h>

#include "launcher/core/label_selector.h"
#include "launcher/core/placement.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

NodeCapacity node(int id, Labels labels, double cpu = 4, double gpu = 0) {
  const Resources has{.cpu = cpu, .gpu = gpu, .custom = {}};
  NodeCapacity capacity{NodeId{id}, "n" + std::to_string(id), has, has};
  capacity.labels = std::move(labels);
  for (int index = 0; index < static_cast<int>(gpu); ++index)
    capacity.gpus.push_back({.name = std::to_string(index),
                             .uuid = "GPU-" + std::to_string(id) + std::to_string(index)});
  return capacity;
}

ScalingConfig workers(int min, int max, std::vector<LabelSelector> selectors = {},
                      PlacementStrategy strategy = PlacementStrategy::Pack) {
  ScalingConfig scaling;
  scaling.num_workers = {min, max};
  scaling.label_selector = std::move(selectors);
  scaling.placement_strategy = strategy;
  return scaling;
}

/// Return how many workers each node has: {0: 2, 3: 1}.
std::map<int, int> where(const Placement& placement) {
  std::map<int, int> counts;
  for (const PlacedNode& placed : placement.nodes)
    counts[placed.node.value] = placed.local_world_size;
  return counts;
}
using Where = std::map<int, int>;

struct Accepts {
  const char* condition;
  bool r1, r2, none;  // whether a node with rack=r1, with rack=r2, without a rack is accepted
};

TEST(LabelSelector, HasRaysConditions) {
  for (const Accepts& row :
       {Accepts{"r1", true, false, false}, Accepts{"!r1", false, true, true},
        Accepts{"in(r1,r3)", true, false, false}, Accepts{"in( r3 , r1 )", true, false, false},
        Accepts{"!in(r1,r2)", false, false, true}, Accepts{" ! in(r2)", true, false, true}}) {
    const LabelSelector selector{{"rack", row.condition}};
    EXPECT_TRUE(check_label_condition(row.condition)) << row.condition;
    EXPECT_EQ(accepts(selector, {{"rack", "r1"}}), row.r1) << row.condition;
    EXPECT_EQ(accepts(selector, {{"rack", "r2"}}), row.r2) << row.condition;
    EXPECT_EQ(accepts(selector, {{"zone", "r1"}}), row.none) << row.condition;
  }
}

TEST(LabelSelector, RefusesWhatCanBeNoValue) {
  for (const char* condition : {"", "!", "in(a", "in()", "in(a,)", "a b", "!in(a,,b)", "-a", "a)"})
    EXPECT_FALSE(check_label_condition(condition)) << condition;
  EXPECT_EQ(check_label_condition("in(a,b").error().message,
            "is 'in(a,b', which has no ')' at its end");
  EXPECT_EQ(check_label_condition("in(a,?)").error().message,
            "is 'in(a,?)', and '?' can be no label's value");
}

TEST(LabelSelector, AllConditionsCount) {
  const LabelSelector selector{{"gpu", "H100"}, {"rack", "!r2"}};
  EXPECT_TRUE(accepts(selector, {{"gpu", "H100"}, {"rack", "r1"}}));
  EXPECT_FALSE(accepts(selector, {{"gpu", "H100"}, {"rack", "r2"}}));
  EXPECT_FALSE(accepts(selector, {{"gpu", "A100"}, {"rack", "r1"}}));
}

TEST(PlacementLabels, WorkersGoOnlyWhereTheirSelectorIsMet) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}), node(1, {{"rack", "r2"}}),
                                        node(2, {})};

  EXPECT_EQ(where(place(workers(4, 4, {{{"rack", "r2"}}}), nodes, 3)), (Where{{1, 4}}));
  EXPECT_EQ(where(place(workers(6, 6, {{{"rack", "!r1"}}}), nodes, 3)), (Where{{1, 4}, {2, 2}}));
}

TEST(PlacementLabels, SaysWhichLabelsThereAreIfNoNodeIsAccepted) {
  const std::vector<NodeCapacity> nodes{node(0, {{"gpu", "A100"}, {"rack", "r1"}}), node(1, {})};

  const Placement placement = place(workers(1, 1, {{{"gpu", "H100"}, {"rack", "!r2"}}}), nodes, 2);

  EXPECT_EQ(placement.reason,
            "no node has the labels that label_selector asks for (gpu: H100, rack: !r2): n0 has "
            "gpu=A100, rack=r1; n1 has no labels");
  EXPECT_TRUE(placement.never);
  EXPECT_FALSE(place(workers(1, 1, {{{"gpu", "H100"}}}), nodes, 3).never);  // one may yet answer
}

TEST(PlacementLabels, SaysNoMoreThanOneCanRead) {
  Labels many;
  for (int i = 10; i < 74; ++i) many["l" + std::to_string(i)] = std::string(63, 'v');
  std::vector<NodeCapacity> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back(node(i, many));

  const std::string reason = place(workers(1, 1, {{{"gpu", "H100"}}}), nodes, 1000).reason;

  EXPECT_LT(reason.size(), 8000u);
  EXPECT_TRUE(reason.ends_with(" and 56 more; 992 more nodes")) << reason;
}

TEST(PlacementLabels, SaysWhichNodesHaveOtherLabelsIfThereIsTooLittleRoom) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}), node(1, {{"rack", "r2"}})};

  EXPECT_EQ(place(workers(5, 5, {{{"rack", "r1"}}}), nodes, 2).reason,
            "5 workers with CPU 1 each are needed (PACK), 4 fit: n0 has CPU 4 (room for 4); n1 has "
            "CPU 4 (room for 0; its labels: rack=r2)");
}

TEST(PlacementLabels, AListHasOneSelectorForEachWorker) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}, 2), node(1, {{"rack", "r2"}}, 2),
                                        node(2, {}, 2)};

  EXPECT_EQ(
      where(place(workers(3, 3, {{{"rack", "r2"}}, {{"rack", "r1"}}, {{"rack", "r2"}}}), nodes, 3)),
      (Where{{0, 1}, {1, 2}}));
}

// The first worker could take the last place that the second one can have.
TEST(PlacementLabels, AWorkerMakesRoomForOneThatHasNoOtherPlace) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}, 1), node(1, {{"rack", "r2"}}, 1),
                                        node(2, {{"rack", "r3"}}, 1)};

  EXPECT_EQ(where(place(workers(3, 3, {{}, {{"rack", "in(r1,r2)"}}, {{"rack", "r1"}}}), nodes, 3)),
            (Where{{0, 1}, {1, 1}, {2, 1}}));
}

TEST(PlacementLabels, AListFollowsTheStrategy) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}), node(1, {{"rack", "r1"}})};
  const std::vector<LabelSelector> two{{{"rack", "r1"}}, {{"rack", "!r2"}}};

  EXPECT_EQ(where(place(workers(2, 2, two), nodes, 2)), (Where{{0, 2}}));
  EXPECT_EQ(where(place(workers(2, 2, two, PlacementStrategy::Spread), nodes, 2)),
            (Where{{0, 1}, {1, 1}}));
  EXPECT_EQ(where(place(workers(2, 2, two, PlacementStrategy::StrictPack), nodes, 2)),
            (Where{{0, 2}}));
  EXPECT_EQ(where(place(workers(2, 2, two, PlacementStrategy::StrictSpread), nodes, 2)),
            (Where{{0, 1}, {1, 1}}));
  const std::vector<LabelSelector> apart{{{"rack", "r1"}}, {{"rack", "r2"}}};
  const std::vector<NodeCapacity> racks{node(0, {{"rack", "r1"}}), node(1, {{"rack", "r2"}})};
  EXPECT_EQ(place(workers(2, 2, apart, PlacementStrategy::StrictPack), racks, 2).world_size, 0);
}

TEST(PlacementLabels, AnElasticGroupHasAsManyOfTheListAsCanBePlaced) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}})};

  EXPECT_EQ(
      where(place(workers(1, 3, {{{"rack", "r1"}}, {{"rack", "r2"}}, {{"rack", "r1"}}}), nodes, 1)),
      (Where{{0, 2}}));
}

NodeUp up_in(NodeId id, const char* rack) {
  NodeUp event = node_up(id);
  event.capacity.labels = {{"rack", rack}};
  return event;
}

TEST(PlacementLabels, ARestartOnOtherNodesKeepsToTheSelector) {
  NodePool pool(3);
  const FailurePolicy policy(FailureConfig{}, true, 3);
  const ScalingConfig scaling = workers(2, 2, {{{"rack", "r1"}}}, PlacementStrategy::Spread);
  pool.up(up_in(kNodeA, "r1"));
  pool.up(up_in(kNodeB, "r1"));
  pool.up(up_in(kNodeC, "r2"));
  const Placement first = pool.placement(scaling, pool.usable(scaling, policy));
  EXPECT_EQ(where(first), (Where{{0, 1}, {1, 1}}));
  pool.placed(first);

  pool.down(kNodeB);
  EXPECT_EQ(where(pool.placement(scaling, pool.usable(scaling, policy))), (Where{{0, 2}}));
  pool.drain(kNodeA);
  EXPECT_EQ(pool.placement(scaling, pool.usable(scaling, policy)).world_size, 0);
}

TEST(PlacementLabels, AGroupGrowsOntoNodesOfItsSelectorOnly) {
  NodePool pool(2);
  FailurePolicy policy(FailureConfig{}, true, 2);
  const ScalingConfig scaling = workers(1, 8, {{{"rack", "r1"}}});
  pool.up(up_in(kNodeA, "r1"));
  EXPECT_EQ(pool.capacity(scaling, policy), 4);
  pool.up(up_in(kNodeC, "r2"));
  EXPECT_EQ(pool.capacity(scaling, policy), 4);
  pool.up(up_in(kNodeB, "r1"));
  EXPECT_EQ(pool.capacity(scaling, policy), 8);
}

TEST(PlacementGpus, OnlyChosenOnesThatAreFreeAreRoom) {
  NodeCapacity first = node(0, {}, 8, 4), second = node(1, {}, 8, 4);
  second.gpus[3].free = false;
  second.free.gpu = 3;
  ScalingConfig scaling = workers(1, 8);
  scaling.resources_per_worker.gpu = 1;
  scaling.gpus = {"3", "GPU-01"};  // index 3 of each node, and index 1 of the first

  EXPECT_EQ(where(place(scaling, {first, second}, 2)), (Where{{0, 2}}));
  scaling.num_workers = {4, 4};
  const Placement lacks = place(scaling, {first, second}, 2);
  EXPECT_EQ(lacks.reason,
            "4 workers with CPU 1, GPU 1 each are needed (PACK), 3 fit: n0 has CPU 8, GPU 2 (room "
            "for 2); n1 has CPU 8, GPU 1 (room for 1)");
}

TEST(PlacementGpus, NoWorkerHasItsPartFromTwoGpus) {
  const Resources has{.cpu = 100, .gpu = 2, .custom = {}};
  const auto fit = [&](double gpu) {
    return workers_that_fit(has, {.cpu = 0, .gpu = gpu, .custom = {}}, 100);
  };

  EXPECT_EQ(fit(0.5), 4);
  EXPECT_EQ(fit(0.4), 4);  // not 5
  EXPECT_EQ(fit(0.25), 8);
  EXPECT_EQ(fit(0.1), 20);
  EXPECT_EQ(fit(0.6), 2);
  EXPECT_EQ(fit(1), 2);
}

TEST(AutomaticWorkers, AreOneForEachGpuThatAWorkerClaimsOrForEachCore) {
  const std::vector<NodeCapacity> nodes{node(0, {}, 16, 4), node(1, {}, 6, 2)};
  ScalingConfig scaling = workers(1, 1);

  EXPECT_EQ(automatic_workers(scaling, nodes), 22);
  scaling.resources_per_worker.cpu = 0;
  EXPECT_EQ(automatic_workers(scaling, nodes), 22);
  scaling.resources_per_worker.cpu = 4;
  EXPECT_EQ(automatic_workers(scaling, nodes), 5);
  scaling.resources_per_worker.gpu = 1;
  EXPECT_EQ(automatic_workers(scaling, nodes), 6);
  scaling.resources_per_worker.gpu = 2;
  EXPECT_EQ(automatic_workers(scaling, nodes), 3);
  scaling.resources_per_worker.gpu = 0.5;
  EXPECT_EQ(automatic_workers(scaling, nodes), 12);
  EXPECT_EQ(automatic_workers(scaling, {}), 0);
}

TEST(AutomaticWorkers, CountWhatOthersHaveNow) {
  NodeCapacity busy = node(0, {}, 4);
  busy.free.cpu = 0;

  EXPECT_EQ(automatic_workers(workers(1, 1), {busy}), 4);
}

TEST(AutomaticWorkers, FollowLabelsGpusAndTheStrategy) {
  const std::vector<NodeCapacity> nodes{node(0, {{"rack", "r1"}}, 16, 4), node(1, {}, 6, 2)};
  ScalingConfig scaling = workers(1, 1);
  scaling.resources_per_worker.gpu = 1;

  scaling.placement_strategy = PlacementStrategy::StrictPack;
  EXPECT_EQ(automatic_workers(scaling, nodes), 4);
  scaling.placement_strategy = PlacementStrategy::StrictSpread;
  EXPECT_EQ(automatic_workers(scaling, nodes), 2);
  scaling.placement_strategy = PlacementStrategy::Pack;
  scaling.gpus = {"1", "2"};
  EXPECT_EQ(automatic_workers(scaling, nodes), 3);
  scaling.label_selector = {{{"rack", "!r1"}}};
  EXPECT_EQ(automatic_workers(scaling, nodes), 1);
}

}  // namespace
}  // namespace train
