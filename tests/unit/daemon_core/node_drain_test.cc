// How a node is drained, and when it forgets a run.
#include <gtest/gtest.h>

#include "tests/unit/daemon_core/node_events.h"

namespace train {
namespace {

TEST(NodeAgent, DrainingOffersNothingAndTellsTheLaunchers) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));

  const auto actions = node.handle(DrainAsked{"SIGTERM"});

  ASSERT_EQ(actions.size(), 2u);
  const auto& offer = std::get<SendOffer>(actions[0]).offer;
  EXPECT_TRUE(offer.draining);
  EXPECT_EQ(offer.free, Resources{});
  EXPECT_EQ(offer.total, cpus(4, 2));
  EXPECT_EQ(offer.attempts, std::vector<std::uint32_t>{0});
  EXPECT_EQ(std::get<TellDraining>(actions[1]).link, kLink);
  EXPECT_EQ(std::get<TellDraining>(actions[1]).reason, "SIGTERM");
  EXPECT_EQ(node.one<TellDraining>(attach(kOther, 1, "r2")).link, kOther);
}

TEST(NodeAgent, DrainingRefusesNewAttemptsOnly) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 2));
  node.handle(DrainAsked{"SIGTERM"});

  EXPECT_EQ(node.one<SendPrepare>(ask(kLink, kFirst, 2)).key, (AttemptKey{"r1", kFirst}));
  EXPECT_EQ(node.one<RefuseAttempt>(ask(kLink, kSecond, 2)).error,
            (Error{Errc::Unavailable, "node-a takes no new workers: it is draining (SIGTERM)"}));
}

TEST(NodeAgent, IsDrainedWhenItsLastSupervisorHasGone) {
  Node node;
  node.handle(AdoptionBegun{});
  node.handle(up(kFirst));
  EXPECT_FALSE(node.agent.drained());
  node.handle(DrainAsked{"SIGTERM"});
  node.handle(node.down({"r1", kFirst}));
  EXPECT_FALSE(node.agent.drained());  // another may still be found

  node.handle(AdoptionEnded{});

  EXPECT_TRUE(node.agent.drained());
}

TEST(NodeAgent, StopsWhatIsLeftWhenTheGraceIsOver) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 1));
  node.handle(up(kFirst, 1, "r2"));  // without a launcher
  node.handle(DrainAsked{"SIGTERM"});

  auto actions = node.handle(DrainExpired{});

  ASSERT_EQ(actions.size(), 3u);
  EXPECT_EQ(std::get<StopAttempt>(actions[0]).key, (AttemptKey{"r1", kFirst}));
  EXPECT_EQ(std::get<StopAttempt>(actions[0]).reason, "node-a is draining (SIGTERM)");
  EXPECT_EQ(std::get<StopAttempt>(actions[1]).key, (AttemptKey{"r2", kFirst}));
  const auto& told = std::get<TellSupervisor>(actions[2]);
  EXPECT_EQ(told.key, (AttemptKey{"r2", kFirst}));
  EXPECT_EQ(told.state.present, false);
  EXPECT_EQ(told.state.orphan_timeout_ms, 0);

  actions = node.handle(DrainExpired{});

  ASSERT_EQ(actions.size(), 4u);  // the launcher did not release it
  EXPECT_EQ(std::get<TellSupervisor>(actions[1]).key, (AttemptKey{"r1", kFirst}));
  EXPECT_EQ(std::get<TellSupervisor>(actions[1]).state.orphan_timeout_ms, 0);
}

TEST(NodeAgent, ALauncherThatIsLostOnceTheGraceIsOverIsNotWaitedFor) {
  Node node;
  node.handle(attach(kLink, 1));
  node.handle(ask(kLink, kFirst, 1));
  node.handle(up(kFirst));
  node.handle(DrainAsked{"SIGTERM"});
  node.handle(DrainExpired{});

  const auto actions = node.handle(LauncherLinkClosed{kLink});

  ASSERT_EQ(actions.size(), 1u);
  const auto& told = std::get<TellSupervisor>(actions[0]);
  EXPECT_EQ(told.state.present, false);
  EXPECT_EQ(told.state.orphan_timeout_ms, 0);
}

TEST(NodeAgent, ForgetsARunWithItsLastSupervisorWhateverOtherRunsHave) {
  Node node;
  node.handle(up(kFirst, 1, "r1"));
  node.handle(up(kFirst, 1, "r2"));

  node.handle(node.down({"r2", kFirst}));
  node.handle(node.down({"r1", kFirst}));

  EXPECT_TRUE(node.agent.idle());
}

}  // namespace
}  // namespace train
