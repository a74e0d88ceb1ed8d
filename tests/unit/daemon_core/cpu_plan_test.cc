// Which CPUs workers are bound to, on nodes that tests write down as tables.
#include "daemon/core/cpu_plan.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon_core/node_events.h"

namespace train {
namespace {

/// A node of equal sockets. Its CPUs are numbered as Linux does on x86: first one of each core, in
/// the order of the cores, then their second hardware threads.
struct Shape {
  int sockets = 1, nodes_per_socket = 1, cores_per_node = 4, threads = 1, cores_per_cache = 0;
};
CpuTopology machine(const Shape& shape) {
  CpuTopology topology;
  const int nodes = shape.sockets * shape.nodes_per_socket;
  const int cores = nodes * shape.cores_per_node;
  const int per_cache = shape.cores_per_cache > 0 ? shape.cores_per_cache : shape.cores_per_node;
  for (int cpu = 0; cpu < cores * shape.threads; ++cpu) {
    const int core = cpu % cores, node = core / shape.cores_per_node;
    topology.cpus.push_back({.cpu = cpu,
                             .core = core,
                             .socket = node / shape.nodes_per_socket,
                             .node = node,
                             .complex = core / per_cache});
  }
  return topology;
}
CpuSet cpus_in(const char* list) { return parse_cpu_list(list).value(); }
CpuSet all_of(const CpuTopology& topology) {
  CpuSet all;
  for (const CpuPlace& place : topology.cpus) all.insert(place.cpu);
  return all;
}
std::vector<std::string> lists(const BindPlan& plan) {
  std::vector<std::string> lists;
  for (const WorkerBinding& worker : plan.workers) lists.push_back(worker.cpus);
  return lists;
}
using Lists = std::vector<std::string>;

BindPlan plan(const CpuTopology& topology, CpuBinding how, std::vector<int> gpu_nodes,
              const char* allowed = nullptr, const char* taken = "") {
  return plan_binding(topology, {.how = how,
                                 .gpu_nodes = std::move(gpu_nodes),
                                 .allowed = allowed ? cpus_in(allowed) : all_of(topology),
                                 .taken = cpus_in(taken)});
}

TEST(CpuList, IsReadAndWrittenAsTheKernelDoes) {
  for (const char* list : {"", "0", "0-3", "0-3,8", "1,3,5-6,100-199"})
    EXPECT_EQ(cpu_list_text(cpus_in(list)), list);
  EXPECT_EQ(cpu_list_text(cpus_in("3,0-2\n")), "0-3");
  for (const char* list : {"a", "3-1", "0,", "-1", "0--2", "0-99999999999", "8192", "1 2"})
    EXPECT_FALSE(parse_cpu_list(list)) << list;
  EXPECT_EQ(cpus_in("0-8191").size(), 8192u);
  std::string again = "0-8191";
  for (int i = 0; i < 100'000; ++i) again += ",0-8191";  // 819 million
  EXPECT_FALSE(parse_cpu_list(again));
}

TEST(CpuPlan, NothingIsBoundUnlessThatIsWanted) {
  EXPECT_EQ(plan(machine({}), CpuBinding::None, {0, 0}).workers.size(), 0u);
}

TEST(CpuPlan, NodeIsThatOfTheGpu) {
  const BindPlan bound = plan(machine({.sockets = 2, .threads = 2}), CpuBinding::Node, {1, 0, 1});

  EXPECT_EQ(lists(bound), (Lists{"4-7,12-15", "0-3,8-11", "4-7,12-15"}));
  EXPECT_EQ(bound.workers[0].memory_node, 1);
  EXPECT_FALSE(bound.workers[0].exclusive);
  EXPECT_EQ(bound.note, "");
}

TEST(CpuPlan, WorkersWithoutGpusAreDealtToTheNodesInBlocks) {
  const CpuTopology four = machine({.sockets = 4, .cores_per_node = 2});

  EXPECT_EQ(lists(plan(four, CpuBinding::Node, {-1, -1, -1, -1, -1, -1, -1, -1})),
            (Lists{"0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"}));
  EXPECT_EQ(lists(plan(four, CpuBinding::Node, {-1, -1})), (Lists{"0-1", "4-5"}));
}

TEST(CpuPlan, SocketIsAllNodesOfIt) {
  EXPECT_EQ(lists(plan(machine({.sockets = 2, .nodes_per_socket = 4, .cores_per_node = 2}),
                       CpuBinding::Socket, {1, 6})),
            (Lists{"0-7", "8-15"}));
}

TEST(CpuPlan, EightSocketsAreAsGoodAsOne) {
  const CpuTopology eight = machine({.sockets = 8, .cores_per_node = 28, .threads = 2});

  const BindPlan bound = plan(eight, CpuBinding::Socket, {0, 1, 2, 3, 4, 5, 6, 7});

  EXPECT_EQ(bound.workers[7].cpus, "196-223,420-447");
  EXPECT_EQ(bound.workers[7].memory_node, 7);
}

TEST(CpuPlan, ExclusiveDealsTheCoresOfANodeAndKeepsTheirThreadsTogether) {
  const BindPlan bound = plan(machine({.sockets = 2, .cores_per_node = 5, .threads = 2}),
                              CpuBinding::Exclusive, {0, 0, 1});

  EXPECT_EQ(lists(bound), (Lists{"0-2,10-12", "3-4,13-14", "5-9,15-19"}));
  EXPECT_TRUE(bound.workers[0].exclusive);
  EXPECT_EQ(bound.note, "");
}

TEST(CpuPlan, ExclusiveLeavesOutCoresThatAnotherRunHas) {
  EXPECT_EQ(lists(plan(machine({.threads = 2}), CpuBinding::Exclusive, {0, 0}, nullptr, "0-1,4-5")),
            (Lists{"2,6", "3,7"}));
}

TEST(CpuPlan, WhereExclusiveLacksCoresWorkersShareThemAndItIsSaidOnce) {
  const BindPlan one_core = plan(machine({.cores_per_node = 1}), CpuBinding::Exclusive, {-1, -1});

  EXPECT_EQ(lists(one_core), (Lists{"0", "0"}));
  EXPECT_FALSE(one_core.workers[0].exclusive);
  EXPECT_EQ(one_core.note,
            "bind: exclusive: NUMA node 0 has 1 free core for 2 workers, which share cores");
  const BindPlan none = plan(machine({.sockets = 2, .cores_per_node = 2}), CpuBinding::Exclusive,
                             {0, 1}, nullptr, "0-3");
  EXPECT_EQ(lists(none), (Lists{"0", "2"}));
  EXPECT_EQ(none.note,
            "bind: exclusive: NUMA node 0 has 0 free cores for 1 worker, which share cores; NUMA "
            "node 1 has 0 free cores for 1 worker, which share cores");
}

TEST(CpuPlan, ComplexesAreTakenInTurnTheLargestFirst) {
  const CpuTopology zen = machine({.cores_per_node = 8, .threads = 2, .cores_per_cache = 4});

  EXPECT_EQ(lists(plan(zen, CpuBinding::CoreComplex, {0, 0, 0})),
            (Lists{"0-3,8-11", "4-7,12-15", "0-3,8-11"}));
  EXPECT_EQ(lists(plan(zen, CpuBinding::CoreComplex, {0, 0}, "2-3,4-7")), (Lists{"4-7", "2-3"}));
}

TEST(CpuPlan, StaysWithinTheMaskThatWeWereGiven) {
  const CpuTopology two = machine({.sockets = 2, .threads = 2});

  EXPECT_EQ(lists(plan(two, CpuBinding::Node, {0, 1}, "1,3,5,9-10")), (Lists{"1,3,9-10", "5"}));
  EXPECT_EQ(lists(plan(two, CpuBinding::Exclusive, {0, 0}, "1,3,9")), (Lists{"1,9", "3"}));
  // The GPU's node has no CPU that we may use: any other is better than none.
  EXPECT_EQ(lists(plan(two, CpuBinding::Node, {1, 1}, "0-3")), (Lists{"0-3", "0-3"}));
  EXPECT_EQ(lists(plan(two, CpuBinding::Socket, {0}, "2-5")), (Lists{"2-3"}));
}

TEST(CpuPlan, CpusThatAreOfflineAreLeftOut) {
  CpuTopology holes = machine({.sockets = 2});
  std::erase_if(holes.cpus, [](const CpuPlace& place) { return place.cpu == 1 || place.cpu >= 5; });

  EXPECT_EQ(lists(plan(holes, CpuBinding::Node, {0, 1}, "0-7")), (Lists{"0,2-3", "4"}));
}

TEST(CpuPlan, ANodeThatTellsNothingBindsNobody) {
  const BindPlan bound = plan({}, CpuBinding::Node, {0});

  EXPECT_TRUE(bound.workers.empty());
  EXPECT_EQ(bound.note, "workers are not bound to CPUs: the node does not say how its CPUs lie");
}

// ---- what a node's agent makes of it

NodeTraits traits() {
  NodeTraits traits{.labels = {{"rack", "r1"}},
                    .gpus = {{"0", {.uuid = "GPU-a0", .numa_node = 1}},
                             {"1", {.uuid = "GPU-b1", .numa_node = 0}}},
                    .topology = machine({.sockets = 2, .cores_per_node = 2}),
                    .allowed = cpus_in("0-3")};
  return traits;
}

AttemptAsked bound(LinkId link, const char* how, int workers, double gpu) {
  AttemptAsked event = ask(link, kFirst, workers, gpu);
  event.message.bind = how;
  return event;
}

TEST(NodeBinding, WorkersAreBoundNearTheirGpus) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(8, 2), {"0", "1"}, traits());
  node.handle(attach(kLink, 1));

  const auto spawned = node.one<SpawnSupervisor>(bound(kLink, "node", 2, 1));

  ASSERT_EQ(spawned.message.bindings.size(), 2u);
  EXPECT_EQ(spawned.message.bindings[0].cpus, "2-3");
  EXPECT_EQ(spawned.message.bindings[1].cpus, "0-1");
  // Whoever asks again is told the same.
  EXPECT_EQ(node.one<SendPrepare>(bound(kLink, "node", 2, 1)).message.bindings,
            spawned.message.bindings);
}

TEST(NodeBinding, TwoRunsHaveDifferentCoresAlsoAfterTraindWasRestarted) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(8), {}, traits());
  SupervisorHello hello{"r2", kFirst.value, 1, cpus(1), {}, ""};
  hello.bindings = {{.cpus = "0", .memory_node = 0, .exclusive = true}};
  node.handle(SupervisorUp{{"r2", kFirst}, hello});
  node.handle(attach(kLink, 1));

  const auto spawned = node.one<SpawnSupervisor>(bound(kLink, "exclusive", 1, 0));

  ASSERT_EQ(spawned.message.bindings.size(), 1u);
  EXPECT_EQ(spawned.message.bindings[0].cpus, "1");
}

TEST(NodeBinding, AWordThatIsNotKnownBindsNobody) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(8), {}, traits());
  node.handle(attach(kLink, 1));

  EXPECT_TRUE(node.one<SpawnSupervisor>(bound(kLink, "sideways", 1, 0)).message.bindings.empty());
}

TEST(NodeLabels, AreOfferedWithTheGpusAndWhetherTheyAreFree) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(8, 2), {"0", "1"}, traits());
  node.handle(attach(kOther, 1, "r2"));
  node.handle(ask(kOther, kFirst, 1, 1));

  const auto offer = node.one<SendOffer>(attach(kLink, 1)).offer;

  EXPECT_EQ(offer.labels, (Labels{{"rack", "r1"}}));
  EXPECT_EQ(offer.gpus, (std::vector<OfferedGpu>{{.name = "0", .uuid = "GPU-a0", .free = false},
                                                 {.name = "1", .uuid = "GPU-b1", .free = true}}));
}

}  // namespace
}  // namespace train
