#include <gtest/gtest.h>

#include <map>

#include "tests/unit/daemon_core/node_events.h"

namespace train {
namespace {

using Gpus = std::vector<std::string>;

TEST(NodeAgent, OffersWhatItHasToALauncherThatAttaches) {
  Node node;

  const auto offer = node.one<SendOffer>(attach(kLink, 1));

  EXPECT_EQ(offer.link, kLink);
  EXPECT_EQ(offer.offer.node_name, "node-a");
  EXPECT_EQ(offer.offer.host, "host-a");
  EXPECT_EQ(offer.offer.addresses, std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(offer.offer.total, cpus(4, 2));
  EXPECT_EQ(offer.offer.free, cpus(4, 2));
  EXPECT_EQ(offer.offer.attempts, std::vector<std::uint32_t>{});
}

TEST(NodeAgent, RefusesAnOlderGeneration) {
  Node node;
  node.handle(attach(kLink, 5));

  const auto refusal = node.one<RefuseLink>(attach(kOther, 4));

  EXPECT_EQ(refusal.link, kOther);
  EXPECT_EQ(refusal.error,
            (Error{Errc::Fenced, "run r1 is controlled by generation 5, newer than 4",
                   "another train-run has taken this run over; this one must end"}));
  EXPECT_EQ(node.agent.link_of("r1"), kLink);
}

TEST(NodeAgent, RefusesAnOlderGenerationThoughNothingOfTheRunIsLeft) {
  Node node;
  node.handle(attach(kLink, 5));
  node.handle(LauncherLinkClosed{kLink});
  ASSERT_TRUE(node.agent.idle());

  EXPECT_EQ(node.one<RefuseLink>(attach(kOther, 4)).link, kOther);
  EXPECT_TRUE(node.agent.idle());
  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 5)).link, kOther);
}

TEST(NodeAgent, BeginsNoAttemptASecondTimeThoughTheLauncherWasAway) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 1, 1));
  node.handle(LauncherLinkClosed{kLink});
  node.handle(node.down({"r1", kFirst}));
  node.handle(attach(kOther, 1));

  EXPECT_EQ(node.one<TellAttemptLost>(ask(kOther, kFirst, 1, 1)).attempt, kFirst);
}

TEST(NodeAgent, ANewerGenerationTakesTheRunOver) {
  Node node;
  node.handle(attach(kLink, 5));

  EXPECT_EQ(node.one<DropLink>(attach(kOther, 6)).link, kLink);
  EXPECT_EQ(node.agent.link_of("r1"), kOther);
  EXPECT_EQ(node.agent.run_of(kLink), std::nullopt);
}

TEST(NodeAgent, AnAttachThatTheNetworkHeldUpTakesNothingFromTheNewerConnection) {
  Node node;
  node.handle(attach(kOther, 5));

  EXPECT_TRUE(node.handle(attach(kLink, 5)).empty());
  EXPECT_EQ(node.agent.link_of("r1"), kOther);
}

TEST(NodeAgent, ANewerLauncherIsNotHeldUpWhateverConnectionCameFirst) {
  Node node;
  node.handle(attach(kOther, 5));

  EXPECT_EQ(node.one<SendOffer>(attach(kLink, 6)).link, kLink);
  EXPECT_EQ(node.agent.link_of("r1"), kLink);
}

TEST(NodeAgent, RefusesWhatAnotherRunHasTaken) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(ask(kLink, kFirst, 3));
  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free.cpu, 1);

  const auto actions = node.handle(ask(kOther, kFirst, 2));

  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(std::get<RefuseAttempt>(actions[0]).error,
            (Error{Errc::ResourceExhausted, "node-a has too little free: CPU 2 wanted, 1 free"}));
  EXPECT_EQ(std::get<SendOffer>(actions[1]).offer.free.cpu, 1);
}

TEST(NodeAgent, OffersTheOthersWhatARunThatEndedHadTaken) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(ask(kLink, kFirst, 3));
  node.handle(attach(kOther, 1, "r2"));
  std::map<LinkId, double> offered;

  for (const NodeAction& action : node.handle(node.down({"r1", kFirst}))) {
    if (const auto* offer = std::get_if<SendOffer>(&action))
      offered[offer->link] = offer->offer.free.cpu;
  }

  EXPECT_EQ(offered, (std::map<LinkId, double>{{kLink, 4}, {kOther, 4}}));
}

// Their launchers would count on what is gone, and be refused.
TEST(NodeAgent, TellsTheOthersWhatIsLeftWhenARunClaims) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(attach(kOther, 1, "r2"));
  std::map<LinkId, double> offered;

  for (const NodeAction& action : node.handle(ask(kLink, kFirst, 3))) {
    if (const auto* offer = std::get_if<SendOffer>(&action))
      offered[offer->link] = offer->offer.free.cpu;
  }

  EXPECT_EQ(offered, (std::map<LinkId, double>{{kOther, 1}}));
}

TEST(NodeAgent, OffersNothingElseWhenProcessesOfARunStandBy) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(attach(kOther, 1, "r2"));

  const auto actions = node.handle(ask_standby(kFirst));

  ASSERT_EQ(actions.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<SpawnSupervisor>(actions[0]));
}

// Whoever names many long resources that no node has would make the offers to all others too long.
TEST(NodeAgent, OffersNameOnlyWhatTheNodeHas) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  AttemptAsked event = ask(kLink, kFirst, 1);
  event.message.per_worker.custom["tape"] = 0;
  event.message.per_worker.custom["disk"] = 1e-7;
  node.handle(event);

  const auto offered = node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free;

  EXPECT_EQ(offered, cpus(3, 2));
}

TEST(NodeAgent, ARunThatItDoesNotKnowIsNobodys) { EXPECT_EQ(Node().agent.user_of("r1"), ""); }

TEST(NodeAgent, SaysHowMuchMemoryIsMissing) {
  Resources total = cpus(4);
  total.memory_bytes = 3u << 30;
  NodeAgent agent("node-a", "host-a", {}, total);
  agent.handle(attach(kLink, 1));
  AttemptAsked event = ask(kLink, kFirst, 2);
  event.message.per_worker.memory_bytes = 2u << 30;

  const auto actions = agent.handle(event);

  const auto* refused = actions.empty() ? nullptr : std::get_if<RefuseAttempt>(&actions[0]);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->error.message,
            "node-a has too little free: memory 4096 MiB wanted, 3072 MiB free");
}

TEST(NodeAgent, GrantsWhatAllRolesClaim) {
  const auto refusal_of = [](std::vector<RoleClaim> roles) {
    Resources total = cpus(8);
    total.memory_bytes = 3u << 30;
    total.custom["tape"] = 2;
    NodeAgent agent("node-a", "host-a", {}, total);
    agent.handle(attach(kLink, 1));
    AttemptAsked event = ask(kLink, kFirst, 2);
    event.message.other_roles = std::move(roles);
    const auto actions = agent.handle(event);
    const auto* refused = actions.empty() ? nullptr : std::get_if<RefuseAttempt>(&actions[0]);
    return refused == nullptr ? std::string() : refused->error.message;
  };
  const Resources two{.cpu = 2, .memory_bytes = 1u << 30, .custom = {{"tape", 1}}};
  EXPECT_EQ(refusal_of({{2, two}}), "");
  EXPECT_EQ(refusal_of({{2, two}, {3, {.cpu = 1, .custom = {}}}}),
            "node-a has too little free: CPU 9 wanted, 8 free");
  EXPECT_EQ(refusal_of({{0, two}, {3, {.cpu = 1, .custom = {}}}}), "");
  EXPECT_EQ(refusal_of({{1, two}, {1, {.cpu = 0, .custom = {{"tape", 2}}}}}),
            "node-a has too little free: tape 3 wanted, 2 free");
}

TEST(NodeAgent, WhatTheUserHasNamedIsCountedToo) {
  const auto refusal_of = [](const std::string& name, double wanted, int workers = 1) {
    Resources total = cpus(4);
    total.custom["tape"] = 2;
    NodeAgent agent("node-a", "host-a", {}, total);
    agent.handle(attach(kLink, 1));
    AttemptAsked event = ask(kLink, kFirst, workers);
    event.message.per_worker.custom[name] = wanted;
    const auto actions = agent.handle(event);
    const auto* refused = actions.empty() ? nullptr : std::get_if<RefuseAttempt>(&actions[0]);
    return refused == nullptr ? std::string() : refused->error.message;
  };
  EXPECT_EQ(refusal_of("tape", 1), "");
  EXPECT_EQ(refusal_of("tape", 2), "");
  EXPECT_EQ(refusal_of("tape", 1, 2), "");
  EXPECT_EQ(refusal_of("tape", 1, 3), "node-a has too little free: tape 3 wanted, 2 free");
  EXPECT_EQ(refusal_of("tape", 2.5), "node-a has too little free: tape 2.5 wanted, 2 free");
  EXPECT_EQ(refusal_of("disk", 1), "node-a has too little free: disk 1 wanted, 0 free");
}

TEST(NodeAgent, AnOlderAttemptWhoseWorkersAreGoneDoesNotStandInTheWay) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 4));
  node.agent.route_up({"r1", kFirst}, MessageType::GroupGone);

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kSecond, 4)).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, AnOlderAttemptIsStoppedAndWaitedFor) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 4));

  const auto actions = node.handle(ask(kLink, kSecond, 4));

  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<StopAttempt>(actions[0]).key, (AttemptKey{"r1", kFirst}));
  EXPECT_TRUE(std::get<StopAttempt>(actions[0]).at_once);
  EXPECT_EQ(node.one<SpawnSupervisor>(node.down({"r1", kFirst})).key, (AttemptKey{"r1", kSecond}));
}

// Its workers' processes stay: the claims, too, until a launcher uses them or wants no more of
// them.
TEST(NodeAgent, ASupervisorWhoseWorkersStayIsPreparedAgainOrStoppedAndWaitedFor) {
  for (const auto& [begins_anew, used] : {std::pair(true, true), {true, false}, {false, false}}) {
    Node node;
    node.handle(attach(kLink, 1));
    node.handle(ask(kLink, kFirst, 4));
    node.handle(up(kFirst, 4));
    const AttemptKey key{"r1", kFirst};
    EXPECT_EQ(node.agent.route_up(key, MessageType::AttemptSnapshot), kLink);
    EXPECT_EQ(node.agent.route_up(key, MessageType::GroupGone, /*processes_left=*/true), kLink);

    if (begins_anew) node.handle(up(kFirst, 0));
    const auto attached = node.handle(attach(kOther, 2));

    if (begins_anew) EXPECT_EQ(node.agent.route_up(key, MessageType::WorkersStarted), std::nullopt);
    for (const NodeAction& action : attached)
      if (const auto* offered = std::get_if<SendOffer>(&action))
        EXPECT_EQ(offered->offer.attempts, (std::vector<std::uint32_t>{0}));
    EXPECT_EQ(node.agent.counts().claimed.cpu, 4);
    if (used)
      EXPECT_EQ(node.one<SendPrepare>(ask(kOther, kFirst, 4)).message.claimed.cpu, 4);
    else
      EXPECT_EQ(node.one<StopAttempt>(ask(kOther, kSecond, 4)).key, key);
  }
}

TEST(NodeAgent, HoldsWhatADeadSupervisorClaimedUntilItsWorkersAreGoneToo) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(attach(kOther, 1, "r2"));
  node.handle(ask(kLink, kFirst, 1, 2));

  const auto down = node.handle(SupervisorDown{{"r1", kFirst}, "killed by signal 9"});

  ASSERT_EQ(down.size(), 1u);
  EXPECT_EQ(std::get<ReapAttemptLeftovers>(down[0]).key, (AttemptKey{"r1", kFirst}));
  EXPECT_TRUE(node.handle(SupervisorDown{{"r1", kFirst}, "its link closed"}).empty());
  EXPECT_EQ(node.agent.route_up({"r1", kFirst}, MessageType::AttemptSnapshot), std::nullopt);
  EXPECT_EQ(node.one<RefuseAttempt>(ask(kOther, kFirst, 1, 1)).error.message,
            "node-a has too little free: GPU 1 wanted, 0 free");
  const auto lost = node.one<TellAttemptLost>(AttemptLeftoversReaped{{"r1", kFirst}});
  EXPECT_EQ(lost.reason, "killed by signal 9");
  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kOther, kSecond, 1, 1)).message.gpus, (Gpus{"0"}));
  EXPECT_TRUE(node.handle(AttemptLeftoversReaped{{"r1", kFirst}}).empty());
}

TEST(NodeAgent, AnAttemptWaitsUntilNothingIsLeftOfAnOlderOnesDeadSupervisor) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 1));
  node.handle(SupervisorDown{{"r1", kFirst}, "killed"});

  EXPECT_TRUE(node.handle(ask(kLink, kSecond, 1)).empty());

  EXPECT_EQ(node.one<SpawnSupervisor>(AttemptLeftoversReaped{{"r1", kFirst}}).key,
            (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, AnAttemptWhoseStandbyHasDiedWaitsUntilNothingIsLeftOfIt) {
  Node node;
  node.handle(attach(kLink, 1));
  AttemptAsked standby = ask(kLink, kSecond, 1);
  standby.message.standby = true;
  node.handle(standby);
  node.handle(SupervisorDown{{"r1", kSecond}, "killed"});

  EXPECT_TRUE(node.handle(ask(kLink, kSecond, 1)).empty());

  EXPECT_EQ(node.one<SpawnSupervisor>(AttemptLeftoversReaped{{"r1", kSecond}}).key,
            (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, IsNeitherDrainedNorIdleWhileWhatASupervisorLeftIsBeingKilled) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 1));
  node.handle(DrainAsked{"SIGTERM"});
  node.handle(LauncherDetached{kLink});
  const AttemptLeftoversReaped reaped = node.down({"r1", kFirst});

  EXPECT_FALSE(node.agent.drained() || node.agent.idle());

  node.handle(reaped);
  EXPECT_TRUE(node.agent.drained() && node.agent.idle());
}

TEST(NodeAgent, IsNotIdleWhileSupervisorsAreStillSought) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(attach(kLink, 1));
  node.handle(LauncherLinkClosed{kLink});

  EXPECT_FALSE(node.agent.idle());

  node.handle(AdoptionEnded{});
  EXPECT_TRUE(node.agent.idle());
}

TEST(NodeAgent, AskedAgainPassesTheOrderOnAndSpawnsNothing) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));

  const auto actions = node.handle(ask(kLink, kFirst, 2));

  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<SendPrepare>(actions[0]).key, (AttemptKey{"r1", kFirst}));
}

TEST(NodeAgent, AnAttemptWhoseSupervisorEndedIsNotSpawnedAgain) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  EXPECT_EQ(node.one<TellAttemptLost>(node.down({"r1", kFirst}, "killed by signal 9")).reason,
            "killed by signal 9");

  const auto actions = node.handle(ask(kLink, kFirst, 2));

  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<TellAttemptLost>(actions[0]).reason, "it has ended");
}

TEST(NodeAgent, ThoseThatStandByShareWhatTheAttemptBeforeThemHolds) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2, 1));

  const auto actions = node.handle(ask_standby(kSecond));

  ASSERT_EQ(actions.size(), 1u);  // the node stops nothing for them
  const auto& spawned = std::get<SpawnSupervisor>(actions[0]);
  EXPECT_EQ(spawned.message.gpus, (Gpus{"0", "1"}));
  EXPECT_EQ(spawned.message.claimed, Resources{});
  node.handle(up(kSecond, 0));
  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free, cpus(2, 0));
}

TEST(NodeAgent, AnAttemptThatIsAskedForAgainStopsNobodyWhoStandsByForTheNext) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(ask_standby(kSecond));

  for (const NodeAction& action : node.handle(ask(kLink, kFirst, 2)))
    EXPECT_FALSE(std::holds_alternative<StopAttempt>(action));
}

TEST(NodeAgent, ThoseThatStandByNeedNothingThatIsFree) {
  Node node;
  node.handle(attach(kLink, 1, "r1"));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(attach(kOther, 1, "r2"));
  node.handle(ask(kOther, kFirst, 2));

  AttemptAsked more = ask_standby(kSecond);
  more.message.local_world_size = 3;

  EXPECT_EQ(node.one<SpawnSupervisor>(more).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, TheirAttemptIsGrantedWhatItClaimsOnceItBegins) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2, 1));
  node.handle(ask_standby(kSecond));
  node.agent.route_up({"r1", kFirst}, MessageType::GroupGone);
  node.handle(node.down({"r1", kFirst}));
  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free, cpus(4, 2));

  const auto begins = node.one<SendPrepare>(ask(kLink, kSecond, 2, 1));

  EXPECT_EQ(begins.key, (AttemptKey{"r1", kSecond}));
  EXPECT_EQ(begins.message.claimed, cpus(2, 2));
  EXPECT_EQ(node.one<SendOffer>(attach(kOther, 1, "r2")).offer.free, cpus(2, 0));
}

// Each is a supervisor with its processes, which claim nothing.
TEST(NodeAgent, OthersOfTheRunStandByWhenThoseThatDoHaveEnded) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(ask_standby(kSecond));
  constexpr Attempt kThird{2}, kFourth{3};

  EXPECT_TRUE(node.handle(ask_standby(kThird)).empty());
  EXPECT_TRUE(node.handle(ask_standby(kFourth)).empty());

  EXPECT_EQ(node.one<SpawnSupervisor>(node.down({"r1", kSecond})).key, (AttemptKey{"r1", kFourth}));
}

TEST(NodeAgent, AnAttemptThatWaitsIsNotForgottenForOneThatIsToStandBy) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(up(kFirst));
  node.handle(ask(kLink, kSecond, 2));  // waits for the first to end
  node.handle(ask_standby(Attempt{2}));
  node.handle(ask_standby(Attempt{3}));

  EXPECT_EQ(node.one<SpawnSupervisor>(node.down({"r1", kFirst})).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, AnAttemptThatWaitsIsNotForgottenForOneWhoseStandbyHasDied) {
  constexpr Attempt kThird{2};
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(ask_standby(kThird));
  node.handle(ask(kLink, kSecond, 2));  // waits for the first to end
  node.handle(SupervisorDown{{"r1", kThird}, "killed"});
  node.handle(ask_standby(kThird));

  EXPECT_EQ(node.one<SpawnSupervisor>(node.down({"r1", kFirst})).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, AnAttemptThatWaitsForSupervisorsToBeFoundIsNotForgottenForOneThatIsToStandBy) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kSecond, 2));
  node.handle(ask_standby(Attempt{2}));

  EXPECT_EQ(node.one<SpawnSupervisor>(AdoptionEnded{}).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, AnAttemptBeginsAlsoWhereThoseThatStoodByHaveDied) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask_standby(kSecond));
  const auto lost = node.one<TellAttemptLost>(node.down({"r1", kSecond}, "killed"));
  EXPECT_TRUE(lost.standby);

  EXPECT_EQ(node.one<SpawnSupervisor>(ask(kLink, kSecond, 2)).key, (AttemptKey{"r1", kSecond}));
  EXPECT_FALSE(node.one<TellAttemptLost>(node.down({"r1", kSecond}, "killed")).standby);
}

TEST(NodeAgent, AnAttemptThatIsAskedForWhileSupervisorsAreStillSoughtWaitsForThem) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(attach(kLink, 1));
  EXPECT_EQ(node.handle(ask(kLink, kSecond, 2)).size(), 0u);
  SupervisorUp found = up(kSecond, 0);
  found.message.standby = true;
  node.handle(found);

  EXPECT_EQ(node.one<SendPrepare>(AdoptionEnded{}).key, (AttemptKey{"r1", kSecond}));
}

TEST(NodeAgent, FramesPassFromTheSnapshotOn) {
  Node node;
  const AttemptKey key{"r1", kFirst};
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(up(kFirst));
  EXPECT_EQ(node.agent.route_up(key, MessageType::Prepared), std::nullopt);
  EXPECT_EQ(node.agent.route_up(key, MessageType::AttemptSnapshot), kLink);
  EXPECT_EQ(node.agent.route_up(key, MessageType::GroupGone), kLink);

  node.handle(LauncherLinkClosed{kLink});
  EXPECT_EQ(node.agent.route_up(key, MessageType::GroupGone), std::nullopt);
  node.handle(attach(kOther, 1));

  EXPECT_EQ(node.agent.route_up(key, MessageType::GroupGone), std::nullopt);
  EXPECT_EQ(node.agent.route_up(key, MessageType::AttemptSnapshot), kOther);
}

TEST(NodeAgent, TellsTheSupervisorsWhenTheLauncherComesAndGoes) {
  Node node;
  node.handle(attach(kLink, 3));
  node.handle(ask(kLink, kFirst, 2));
  EXPECT_EQ(node.one<TellSupervisor>(up(kFirst)).state.present, true);

  EXPECT_EQ(node.one<TellSupervisor>(LauncherLinkClosed{kLink}).state.present, false);
  const LauncherState back = node.one<TellSupervisor>(attach(kOther, 3)).state;

  EXPECT_EQ(back.present, true);
  EXPECT_EQ(back.generation, 3u);
  EXPECT_EQ(back.orphan_timeout_ms, 5000);
}

TEST(NodeAgent, OffersNothingBeforeItHasFoundItsSupervisorsAgain) {
  Node node;
  node.handle(AdoptionBegun{});
  EXPECT_EQ(node.handle(attach(kLink, 1)).size(), 0u);
  node.handle(up(kFirst));

  const auto offer = node.one<SendOffer>(AdoptionEnded{});

  EXPECT_EQ(offer.offer.attempts, std::vector<std::uint32_t>{0});
}

TEST(NodeAgent, AnAdoptedSupervisorKeepsItsOrphanTimeoutWhileNobodyIsThere) {
  Node node;

  const LauncherState state = node.one<TellSupervisor>(up(kFirst)).state;

  EXPECT_EQ(state.present, false);
  EXPECT_EQ(state.orphan_timeout_ms, kKeepOrphanTimeoutMs);
}

TEST(NodeAgent, ALauncherThatDetachesLeavesNothingToWaitFor) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));

  const LauncherState state = node.one<TellSupervisor>(LauncherDetached{kLink}).state;

  EXPECT_EQ(state.present, false);
  EXPECT_EQ(state.orphan_timeout_ms, 0);
  node.handle(node.down({"r1", kFirst}));
  EXPECT_TRUE(node.agent.idle());
}

TEST(NodeAgent, KnowsTheGenerationOfARunThatIsOverAsLongAsASupervisorOfItLives) {
  Node node;
  node.handle(attach(kLink, 2));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(LauncherDetached{kLink});

  EXPECT_EQ(node.one<RefuseLink>(attach(kOther, 1)).link, kOther);
  EXPECT_EQ(node.agent.link_of("r1"), std::nullopt);
}

/// Return the event that a restarted traind finds r1's supervisor, which knows this generation.
SupervisorUp found(std::uint64_t generation) {
  SupervisorUp event = up(kFirst);
  event.message.generation = generation;
  return event;
}

TEST(NodeAgent, LearnsTheGenerationOfARunFromASupervisorThatItFindsAgain) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(found(6));
  node.handle(AdoptionEnded{});

  const auto refusal = node.one<RefuseLink>(attach(kLink, 5));

  EXPECT_EQ(refusal.link, kLink);
  EXPECT_EQ(refusal.error.message, "run r1 is controlled by generation 6, newer than 5");
  EXPECT_EQ(node.one<TellSupervisor>(attach(kOther, 6)).state.orphan_timeout_ms, 5000);
  EXPECT_EQ(node.agent.link_of("r1"), kOther);
}

TEST(NodeAgent, TakesTheLeaseFromAnOlderLauncherThatCameBeforeTheSupervisorAnswered) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(attach(kLink, 5));

  const auto actions = node.handle(found(6));

  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(std::get<RefuseLink>(actions[0]).link, kLink);
  EXPECT_EQ(std::get<TellSupervisor>(actions[1]).state.present, false);
  EXPECT_EQ(node.agent.link_of("r1"), std::nullopt);
}

TEST(NodeAgent, ALeaseCountsTheIngestWorkers) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(attach(kOther, 1, "r2"));
  AttemptAsked event = ask(kLink, kFirst, 1);
  event.message.ingest = cpus(2.5);

  const auto spawned = node.one<SpawnSupervisor>(event);
  const auto offer = node.one<SendOffer>(attach(kOther, 2, "r2"));
  const auto refused = node.one<RefuseAttempt>(ask(kOther, kFirst, 1));

  EXPECT_EQ(spawned.message.claimed, cpus(3.5));
  EXPECT_EQ(offer.offer.free.cpu, 0.5);
  EXPECT_EQ(refused.error.message, "node-a has too little free: CPU 1 wanted, 0.5 free");
}

TEST(NodeAgent, RefusesAnAttemptWhoseIngestWorkersDoNotFit) {
  Node node;
  node.handle(attach(kLink, 1));
  AttemptAsked event = ask(kLink, kFirst, 3);
  event.message.ingest = cpus(2);

  EXPECT_EQ(node.one<RefuseAttempt>(event).error.message,
            "node-a has too little free: CPU 5 wanted, 4 free");
}

}  // namespace
}  // namespace train
