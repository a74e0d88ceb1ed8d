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
            "node-a has too little free: GPU 1.5 wanted, 1 free");
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kFirst, 2, 0.5)).message.gpus, Gpus{"1"});
}

TEST(NodeGpus, PartsThatMakeAWholeGpuNeedNoSecondOne) {
  Node node;
  node.agent = NodeAgent("node-a", "host-a", {}, cpus(100, 7));
  node.handle(attach(kLink, 1));

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kFirst, 100, 0.07)).message.gpus.size(), 7u);
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
