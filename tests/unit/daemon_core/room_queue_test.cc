// What a node keeps for runs that wait, and for the next attempts of those that have workers.
#include <gtest/gtest.h>

#include <limits>

#include "daemon/core/launcher_orders.h"
#include "tests/unit/daemon_core/node_events.h"

namespace train {
namespace {

constexpr LinkId kThird = 3;

RoomClaimed waits(LinkId link, int workers_here, std::int64_t since_ms, int priority = 0) {
  ClaimRoom claim{.workers = workers_here, .workers_here = workers_here, .per_worker = cpus(1)};
  claim.place.priority = priority;
  claim.place.since_ms = since_ms;
  return {link, claim};
}
RoomClaimed has_workers(LinkId link, int workers_here) {
  RoomClaimed claim = waits(link, workers_here, 0);
  claim.message.place.placed = claim.message.place.begun = true;
  return claim;
}

/// A node with four cores and two GPUs, and three runs that have attached.
struct Shared : Node {
  Shared() {
    handle(attach(kLink, 1, "r1"));
    handle(attach(kOther, 1, "r2"));
    handle(attach(kThird, 1, "r3"));
  }
  /// Return what the node offers to the launcher when it attaches again.
  NodeOffer offer(LinkId link) {
    const std::string run = agent.run_of(link).value_or("");
    return one<SendOffer>(attach(link, 1, run)).offer;
  }
  double free_for(LinkId link) { return offer(link).free.cpu; }
};

TEST(RoomQueue, ARunThatWaitsHasItsRoomBeforeThoseThatCameLater) {
  Shared node;
  node.handle(waits(kOther, 3, /*since_ms=*/100));
  node.handle(waits(kThird, 4, /*since_ms=*/200));

  EXPECT_EQ(node.free_for(kOther), 4);
  EXPECT_EQ(node.free_for(kThird), 1);
  EXPECT_EQ(node.free_for(kLink), 0);  // it has not asked: both come first
}

TEST(RoomQueue, APriorityGoesBeforeTime) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  node.handle(waits(kThird, 4, 200, /*priority=*/1));

  EXPECT_EQ(node.free_for(kThird), 4);
  EXPECT_EQ(node.free_for(kOther), 0);
}

TEST(RoomQueue, ARunThatHasBegunGoesBeforeOthersAndAnOwnerWithLessBeforeOneWithMore) {
  QueuePlace old{.since_ms = 1}, restarts{.begun = true, .since_ms = 3},
      poor{.share = 10, .since_ms = 3}, rich{.share = 11, .since_ms = 2};
  EXPECT_TRUE(goes_before(restarts, "b", old, "a"));
  EXPECT_FALSE(goes_before(old, "a", restarts, "b"));
  EXPECT_TRUE(goes_before(poor, "b", rich, "a"));
  EXPECT_TRUE(goes_before(old, "b", poor, "a"));
  const QueuePlace long_rich{.waited_long = true, .share = 90, .since_ms = 2},
      long_poor{.waited_long = true, .share = 10, .since_ms = 3};
  EXPECT_TRUE(goes_before(long_rich, "b", old, "a"));
  EXPECT_TRUE(goes_before(long_rich, "b", long_poor, "a"));
  EXPECT_TRUE(goes_before(old, "a", old, "b"));
  EXPECT_FALSE(goes_before(old, "a", old, "a"));
}

TEST(RoomQueue, EveryoneIsOfferedWhatTheNewsLeavesThem) {
  Shared node;
  std::map<LinkId, double> told;
  for (const NodeAction& action : node.handle(waits(kOther, 3, 100))) {
    const auto& offer = std::get<SendOffer>(action);
    told[offer.link] = offer.offer.free.cpu;
  }
  EXPECT_EQ(told, (std::map<LinkId, double>{{kLink, 1}, {kThird, 1}}));  // for r2 it is no news

  EXPECT_TRUE(node.handle(waits(kOther, 3, 100)).empty());  // nor is this for anyone
}

TEST(RoomQueue, WhatARunHasAlreadyIsNotKeptForItASecondTime) {
  Shared node;
  node.handle(waits(kLink, 3, 100));
  node.handle(ask(kLink, kFirst, 2));

  EXPECT_EQ(node.free_for(kOther), 1);  // 2 are claimed, and 1 more is kept
}

TEST(RoomQueue, TheRoomOfWorkersStaysForTheirNextAttempt) {
  Shared node;
  node.handle(ask(kLink, kFirst, 3));
  node.handle(up(kFirst, 3));
  node.handle(has_workers(kLink, 3));
  node.handle(waits(kOther, 4, 100, /*priority=*/9));
  node.handle(node.down({"r1", kFirst}));

  EXPECT_EQ(node.free_for(kOther), 1);
  EXPECT_EQ(node.free_for(kLink), 3);  // not the fourth, for which r2 waits
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kSecond, 3)).key.run_id, "r1");
}

TEST(RoomQueue, ARunWithWorkersGrowsOnlyByWhatNobodyWaitsFor) {
  Shared node;
  node.handle(ask(kLink, kFirst, 1));
  node.handle(has_workers(kLink, 1));
  EXPECT_EQ(node.free_for(kLink), 4);

  node.handle(waits(kOther, 2, 100));
  EXPECT_EQ(node.free_for(kLink), 2);
}

TEST(RoomQueue, AnAttemptIsRefusedWhatIsKeptForOthersAndTheAnswerNamesThem) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  node.handle(waits(kThird, 4, 200));

  const auto refused = node.one<RefuseAttempt>(ask(kThird, kFirst, 2));
  EXPECT_TRUE(refused.busy);
  EXPECT_EQ(refused.error.message,
            "node-a has too little free: CPU 2 wanted, 1 free; room is kept for r2");
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kFirst, 3)).key.run_id, "r2");
}

TEST(RoomQueue, GpusAreKeptAsWell) {
  Shared node;
  RoomClaimed claim = waits(kOther, 2, 100);
  claim.message.per_worker = cpus(1, 0.5);  // both share one GPU
  node.handle(claim);

  EXPECT_EQ(node.offer(kThird).free.gpu, 1);
  EXPECT_EQ(node.one<RefuseAttempt>(ask(kThird, kFirst, 2, 1)).error.code, Errc::ResourceExhausted);
}

TEST(RoomQueue, OthersGetTheGpusLastThatAWaitingRunNames) {
  Shared node;
  RoomClaimed claim = waits(kOther, 1, 100);
  claim.message.per_worker = cpus(0, 1);
  claim.message.gpu_choice = {"0"};
  node.handle(claim);

  const auto given = node.one<SpawnSupervisor>(ask(kThird, kFirst, 1, 1));
  EXPECT_EQ(given.message.gpus, std::vector<std::string>{"1"});
}

TEST(RoomQueue, WhoOnlyAsksHearsWhatNobodyHas) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  EXPECT_EQ(node.one<SendOffer>(attach(9, 0, "nodes")).offer.free.cpu, 4);
}

TEST(RoomQueue, ARunThatKeepsNothingHereIsNotNamedAsOneBefore) {
  Shared node;
  RoomClaimed claim = waits(kOther, 3, 100);
  claim.message.workers_here = 0;
  node.handle(claim);
  EXPECT_EQ(node.offer(kThird).runs, std::vector<PoolRun>{});
  EXPECT_EQ(node.free_for(kThird), 4);
}

TEST(RoomQueue, KeepsRoomForIngestWorkersAndForOwnResources) {
  Node node{NodeAgent("node-a", "host-a", {}, Resources{.cpu = 4, .custom = {{"ssd", 3}}})};
  node.handle(attach(kLink, 1, "r1"));
  node.handle(attach(kOther, 1, "r2"));
  RoomClaimed claim = waits(kOther, 2, 100);
  claim.message.per_worker.custom["ssd"] = 1;
  claim.message.ingest.cpu = 1;
  node.handle(claim);

  const NodeOffer offer = node.one<SendOffer>(attach(kLink, 1, "r1")).offer;
  EXPECT_EQ(offer.free.cpu, 1);
  EXPECT_EQ(offer.free.custom.at("ssd"), 1);
}

TEST(RoomQueue, NothingIsKeptForARunThatWantsNothingAnyMore) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  node.handle(RoomClaimed{kOther, ClaimRoom{}});
  EXPECT_EQ(node.free_for(kThird), 4);
}

TEST(RoomQueue, NothingIsKeptForARunWhoseLauncherIsGone) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  std::map<LinkId, double> told;
  for (const NodeAction& action : node.handle(LauncherLinkClosed{kOther}))
    if (const auto* offer = std::get_if<SendOffer>(&action))
      told[offer->link] = offer->offer.free.cpu;
  EXPECT_EQ(told, (std::map<LinkId, double>{{kLink, 4}, {kThird, 4}}));
}

TEST(RoomQueue, ALauncherKeepsItsPlaceOverANewLinkAndItsSuccessorAsksAgain) {
  Shared node;
  node.handle(waits(kOther, 3, 100));
  node.handle(attach(4, 1, "r2"));
  EXPECT_EQ(node.free_for(kThird), 1);

  node.handle(attach(5, 2, "r2"));
  EXPECT_EQ(node.free_for(kThird), 4);
}

LauncherAttached attach_as(LinkId link, std::uint64_t generation, const std::string& run,
                           const std::string& owner) {
  LauncherAttached event = attach(link, generation, run);
  event.message.submitter = owner;
  return event;
}

TEST(RoomQueue, AnOfferTellsOfTheRunsThatWaitBeforeAndWhatTheOwnersOthersHave) {
  Node node;
  const auto offer_to = [&](LinkId link, const std::string& run, const std::string& owner) {
    return node.one<SendOffer>(attach_as(link, 1, run, owner)).offer;
  };
  offer_to(kLink, "r1", "ada");
  offer_to(kOther, "r2", "bob");
  node.handle(ask(kLink, kFirst, 2));
  node.handle(waits(kOther, 3, 100, 5));
  const PoolRun first{.run_id = "r1",
                      .run_name = "r1",
                      .owner = "ada",
                      .place = {.placed = true},
                      .claimed = cpus(2)};
  const PoolRun second{.run_id = "r2",
                       .run_name = "r2",
                       .owner = "bob",
                       .place = {.priority = 5, .since_ms = 100},
                       .workers = 3,
                       .keeps = true};

  const NodeOffer bobs = offer_to(kOther, "r2", "bob"), adas = offer_to(kThird, "r3", "ada");
  EXPECT_EQ(bobs.owner_has, Resources{});
  EXPECT_EQ(bobs.runs, std::vector<PoolRun>{});
  EXPECT_EQ(adas.owner_has, cpus(2));
  EXPECT_EQ(adas.runs, std::vector<PoolRun>{second});
  // One that only asks hears of all.
  EXPECT_EQ(node.one<SendOffer>(attach_as(9, 0, "nodes", "")).offer.runs,
            (std::vector<PoolRun>{first, second}));
  EXPECT_EQ(node.agent.counts().waiting, 1);
}

TEST(RoomQueue, AnOfferTellsWhatTheOwnersRunsWantThatWaitBefore) {
  Node node;
  const auto wants = [&](LinkId link, const std::string& run, const std::string& owner) {
    return node.one<SendOffer>(attach_as(link, 1, run, owner)).offer.owner_wants;
  };
  wants(kLink, "r1", "ada");
  wants(kOther, "r2", "ada");
  wants(kThird, "r3", "ada");
  RoomClaimed large = waits(kLink, 1, 100);
  large.message.workers = 5;  // on all nodes
  large.message.per_worker = cpus(2, 1);
  large.message.place.share = 900;  // which does not count among them
  node.handle(large);
  node.handle(waits(kOther, 1, 200));

  EXPECT_EQ(wants(kLink, "r1", "ada"), Resources{});
  EXPECT_EQ(wants(kOther, "r2", "ada"), cpus(10, 5));
  EXPECT_EQ(wants(kThird, "r3", "ada"), cpus(11, 5));  // it has not asked yet
  node.handle(ask(kOther, kFirst, 1));
  EXPECT_EQ(wants(kThird, "r3", "ada"), cpus(10, 5));  // what r2 has is not wanted any more
  large.message.workers_here = 0;                      // the nodes are too few for it
  node.handle(large);
  EXPECT_EQ(wants(kThird, "r3", "ada"), Resources{});
  EXPECT_EQ(wants(9, "r9", "bob"), Resources{});
}

TEST(RoomQueue, TellsARunOfTheFirstOnesBeforeIt) {
  Node node;
  for (LinkId link = 1; link <= 20; ++link) {
    node.handle(attach(link, 1, "r" + std::to_string(link)));
    node.handle(waits(link, 1, 1000 - static_cast<std::int64_t>(link)));
  }
  const NodeOffer offer = node.one<SendOffer>(attach(500, 1, "new")).offer;
  ASSERT_EQ(offer.runs.size(), kRunsBeforeMax);
  EXPECT_EQ(offer.runs[0].run_id, "r20");
  EXPECT_EQ(node.one<SendOffer>(attach(501, 0, "nodes")).offer.runs.size(), 20u);
}

TEST(RoomQueue, AClaimBeyondAllBoundsIsRefused) {
  const auto check = [](auto change) {
    ClaimRoom claim = waits(kLink, 1, 0).message;
    change(claim);
    return check_order(claim).has_value();
  };
  EXPECT_TRUE(check([](ClaimRoom&) {}));
  EXPECT_FALSE(check([](ClaimRoom& claim) { claim.place.priority = kPriorityMax + 1; }));
  EXPECT_FALSE(check([](ClaimRoom& claim) { claim.place.priority = -kPriorityMax - 1; }));
  EXPECT_FALSE(check([](ClaimRoom& claim) { claim.place.share = kShareMax + 1; }));
  EXPECT_FALSE(check([](ClaimRoom& claim) { claim.workers = -1; }));
  EXPECT_FALSE(check([](ClaimRoom& claim) { claim.workers_here = 1 << 30; }));
  EXPECT_FALSE(check(
      [](ClaimRoom& claim) { claim.per_worker.cpu = std::numeric_limits<double>::infinity(); }));
  EXPECT_FALSE(check([](ClaimRoom& claim) {
    claim.ingest.memory_bytes = std::numeric_limits<std::uint64_t>::max();
  }));
}

}  // namespace
}  // namespace train
