// Which GPUs a node grants to which run.
#include <gtest/gtest.h>

#include "tests/unit/daemon_core/node_events.h"

namespace train {
namespace {

using Gpus = std::vector<std::string>;

TEST(NodeGpus, SpawnsASupervisorAndClaimsItsGpus) {
  Node node;
  node.handle(attach(kLink, 1));

  const auto spawned = node.one<SpawnSupervisor>(ask(kLink, kFirst, 2, 1));

  EXPECT_EQ(spawned.key, (AttemptKey{"r1", kFirst}));
  EXPECT_EQ(spawned.message.gpus, (Gpus{"0", "1"}));
  EXPECT_EQ(spawned.message.claimed, cpus(2, 2));
  EXPECT_EQ(spawned.orphan_timeout_ms, 5000);
}

TEST(NodeGpus, GrantsGpusByTheirNamesAndThenByIndexesThatAreNotAmongThem) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(4, 4), {"GPU-7", "1"});
  node.handle(attach(kLink, 1));

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kFirst, 4, 1)).message.gpus,
            (Gpus{"GPU-7", "1", "0", "2"}));
}

TEST(NodeGpus, GrantsNoMoreOfItsNamedGpusThanItOffers) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(4, 1), {"3", "5"});
  node.handle(attach(kLink, 1));

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kFirst, 1, 1)).message.gpus, Gpus{"3"});
}

TEST(NodeGpus, TwoRunsHaveDifferentGpus) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(attach(kOther, 1, "r2"));
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kFirst, 1, 1)).message.gpus, (Gpus{"0"}));
  EXPECT_EQ(node.agent.gpus_of("r1"), (Gpus{"0"}));
  EXPECT_EQ(node.agent.gpus_of("r2"), Gpus{});

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kFirst, 1, 1)).message.gpus, (Gpus{"1"}));

  constexpr LinkId kThird = 3;
  node.handle(attach(kThird, 1, "r3"));
  EXPECT_EQ(node.one<RefuseAttempt>(ask(kThird, kFirst, 1, 1)).error.message,
            "node-a has too little free: GPU 1 wanted, 0 free");
  node.handle(node.down({"r1", kFirst}));
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kThird, kSecond, 1, 1)).message.gpus, (Gpus{"0"}));
}

// A run that counted on the halves would be refused each time that it asks.
TEST(NodeGpus, OffersAsManyGpusAsNobodyHolds) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(ask(kLink, kFirst, 1, 0.5));

  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free.gpu, 1);
  EXPECT_EQ(node.one<RefuseAttempt>(ask(kOther, kFirst, 3, 0.5)).error.message,
            "node-a has too little free: GPU 2 wanted, 1 free");
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kFirst, 2, 0.5)).message.gpus, Gpus{"1"});
}

TEST(NodeGpus, PartsThatMakeAWholeGpuNeedNoSecondOneAndNoneIsOfTwoGpus) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(100, 8));
  node.handle(attach(kLink, 1));

  const auto spawned = node.one<SpawnSupervisor>(ask(kLink, kFirst, 98, 0.07));  // 14 of each

  EXPECT_EQ(spawned.message.gpus.size(), 7u);
  EXPECT_EQ(spawned.message.claimed.gpu, 7);
  Node other;
  other.agent = NodeAgent("node-a", "host-a", {}, cpus(100, 8));
  other.handle(attach(kLink, 1));
  EXPECT_EQ(other.one<SpawnSupervisor>(ask(kLink, kFirst, 5, 0.4)).message.gpus.size(), 3u);
}

AttemptAsked choose(LinkId link, Gpus choice, GpusInUse in_use = {}, bool refuse = false) {
  AttemptAsked event = ask(link, kFirst, 1, 1);
  event.message.gpu_choice = std::move(choice);
  event.message.refuse_gpus_in_use = refuse;
  event.gpus_in_use = std::move(in_use);
  return event;
}

struct NodeWithTwo : Node {
  NodeWithTwo() {
    NodeTraits traits;
    traits.gpus = {{"0", {.uuid = "GPU-a0"}}, {"1", {.uuid = "GPU-b1"}}};
    agent = NodeAgent("node-a", "host-a", {}, cpus(8, 2), {"0", "1"}, traits);
    handle(attach(kLink, 1));
  }
};

TEST(NodeGpus, GrantsThoseThatTheSpecChooses) {
  for (const Gpus& choice : {Gpus{"1"}, Gpus{"GPU-b1"}, Gpus{"GPU-b"}, Gpus{"7", "GPU-b1"}}) {
    NodeWithTwo node;
    EXPECT_EQ(node.one<SpawnSupervisor>(choose(kLink, choice)).message.gpus, Gpus{"1"});
  }
  NodeWithTwo node;
  const auto refused = node.one<RefuseAttempt>(choose(kLink, {"7", "GPU-c"}));
  EXPECT_EQ(refused.error.message, "node-a: 1 GPU wanted of 7, GPU-c, 0 free");
  EXPECT_TRUE(refused.busy);
}

TEST(NodeGpus, GpusThatSomebodyElseUsesComeLastAndAreNamed) {
  NodeWithTwo idle_is_left;
  const auto other = idle_is_left.one<SpawnSupervisor>(choose(kLink, {}, {{"0", "pid 1 (x)"}}));
  EXPECT_EQ(other.message.gpus, Gpus{"1"});
  EXPECT_TRUE(other.message.notes.empty());

  NodeWithTwo node;
  const auto warned =
      node.one<SpawnSupervisor>(choose(kLink, {"0"}, {{"0", "pid 4242 (python3) of alice"}}));
  EXPECT_EQ(warned.message.gpus, Gpus{"0"});
  EXPECT_EQ(warned.message.notes, Gpus{"GPU 0 is in use by pid 4242 (python3) of alice"});
}

TEST(NodeGpus, GpusThatSomebodyElseUsesAreRefusedIfTheSpecSaysSo) {
  NodeWithTwo node;
  const GpusInUse in_use{{"0", "pid 4242 (python3) of alice"}, {"1", "pid 7 (x) of bob"}};

  const auto refused = node.one<RefuseAttempt>(choose(kLink, {}, in_use, true));

  EXPECT_EQ(refused.error.message,
            "node-a: 1 GPU wanted, 0 free: GPU 0 is in use by pid 4242 (python3) of alice; GPU 1 "
            "is in use by pid 7 (x) of bob");
  EXPECT_FALSE(refused.busy);
  EXPECT_EQ(node.one<SpawnSupervisor>(choose(kLink, {}, {{"0", "x"}}, true)).message.gpus,
            Gpus{"1"});
}

// What lacks is GPU 1, which a run will give back. That somebody uses GPU 0 does not matter.
TEST(NodeGpus, ARunWaitsForGpusThatAnotherRunHolds) {
  NodeWithTwo node;
  node.handle(attach(kOther, 1, "r2"));
  node.handle(choose(kLink, {"1"}));

  const auto refused =
      node.one<RefuseAttempt>(choose(kOther, {"1"}, {{"0", "pid 4242 (python3) of alice"}}, true));

  EXPECT_EQ(refused.error.message, "node-a: 1 GPU wanted of 1, 0 free");
  EXPECT_TRUE(refused.busy);
}

TEST(NodeGpus, ARestartedTraindGivesNobodyTheGpusOfWorkersThatLive) {
  Node node;
  SupervisorHello hello{"r1", kFirst.value, 1, cpus(1, 1), {"0"}, ""};
  node.handle(SupervisorUp{{"r1", kFirst}, hello});
  node.handle(attach(kOther, 1, "r2"));

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kFirst, 1, 1)).message.gpus, (Gpus{"1"}));
}

struct FourGpus : Node {
  FourGpus() {
    agent = NodeAgent("node-a", "host-a", {}, cpus(8, 4));
    handle(attach(kOther, 1, "r2"));
    handle(attach(kLink, 1, "r1"));
    handle(attach(kThird, 1, "r3"));
    handle(ask(kOther, kFirst, 2, 1));
    handle(ask(kLink, kFirst, 2, 1));
    handle(down({"r2", kFirst}));
  }
  static constexpr LinkId kThird = 3;
};
const Gpus kLower{"0", "1"}, kUpper{"2", "3"};

TEST(NodeGpus, ThoseThatStandByHaveTheGpusOfTheirRunEvenIfOthersAreFree) {
  FourGpus node;

  EXPECT_EQ(node.one<SpawnSupervisor>(ask_standby(kSecond)).message.gpus, kUpper);
}

TEST(NodeGpus, ThoseThatStandByKeepNoGpusFromOtherRuns) {
  FourGpus node;
  AttemptAsked all = ask_standby(kSecond);
  all.message.local_world_size = 4;
  node.handle(all);

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(FourGpus::kThird, kFirst, 2, 1)).message.gpus, kLower);
}

TEST(NodeGpus, AnAttemptBeginsOnTheGpusWithWhichItStoodBy) {
  FourGpus node;
  node.handle(ask_standby(kSecond));
  node.handle(node.down({"r1", kFirst}));

  EXPECT_EQ(node.one<SendPrepare>(ask(kLink, kSecond, 2, 1)).message.gpus, kUpper);
}

TEST(NodeGpus, AnAttemptBeginsOnOtherGpusIfThoseWithWhichItStoodByAreTaken) {
  FourGpus node;
  node.handle(ask_standby(kSecond));
  node.handle(node.down({"r1", kFirst}));
  node.handle(ask(kOther, kSecond, 1, 1));
  node.handle(ask(FourGpus::kThird, kFirst, 2, 1));

  const auto begins = node.one<SendPrepare>(ask(kLink, kSecond, 1, 1));

  EXPECT_EQ(begins.message.gpus, Gpus{"3"});
}

}  // namespace
}  // namespace train
