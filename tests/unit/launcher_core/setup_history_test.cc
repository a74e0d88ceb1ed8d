// What the journal knows of setups, and that no attempt begins before the run's.
#include "launcher/core/setup_history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "launcher/core/run_history.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

TEST(SetupHistory, KnowsWhatHasSucceededAndInWhichLifeOfANode) {
  RunHistory run{FailureConfig{}};
  EXPECT_FALSE(run.setup().run_done());
  EXPECT_EQ(run.setup().life_of("n1"), "");

  for (const auto& record : {run_setup_record(), node_setup_record("n1", "a/1"),
                             node_setup_record("n2", "b/1"), node_setup_record("n1", "a/2")})
    run.add(Generation{1}, "2026-11-28T09:00:00.000000Z", record);

  EXPECT_TRUE(run.setup().run_done());
  EXPECT_EQ(run.setup().life_of("n1"), "a/2");
  EXPECT_EQ(run.setup().life_of("n2"), "b/1");
  EXPECT_EQ(run.setup().life_of("n3"), "");
}

TEST(SetupHistory, SkipsWhatItDoesNotKnowAndKeepsItsLimits) {
  SetupHistory history;
  for (const char* text :
       {R"({})", R"({"event": 1})", R"({"event": "node_setup_done"})",
        R"({"event": "node_setup_done", "node": 3, "life": []})", R"({"event": "setup"})"})
    history.add(boost::json::parse(text).as_object());
  EXPECT_FALSE(history.run_done());
  EXPECT_EQ(history.life_of("n1"), "");

  const std::string long_name(5000, 'n');
  history.add(node_setup_record(long_name, std::string(1 << 20, 'l')));
  EXPECT_EQ(history.life_of(long_name).size(), 1024u);
  for (std::size_t i = 0; i < SetupHistory::kNodesMax; ++i)
    history.add(node_setup_record("n" + std::to_string(i), "x"));
  history.add(node_setup_record("one more", "x"));
  EXPECT_EQ(history.life_of("one more"), "");
  history.add(node_setup_record("n0", "y"));
  EXPECT_EQ(history.life_of("n0"), "y");
}

TEST(RunSetup, NoAttemptBeginsBeforeIt) {
  Driven driven(two_workers(), {.checkpoint = {}, .expected_nodes = 2, .sets_up = true});
  EXPECT_EQ(only<Prepare>(driven.handle(node_up(kNodeA))).size(), 0u);
  EXPECT_EQ(only<Prepare>(driven.handle(node_up(kNodeB))).size(), 0u);
  EXPECT_EQ(driven.run.next_deadline(), std::nullopt);
  EXPECT_EQ(only<Prepare>(driven.handle(Tick{}, std::chrono::hours(5))).size(), 0u);

  EXPECT_EQ(only<Prepare>(driven.handle(RunSetUp{}, std::chrono::hours(6))).size(), 2u);
  EXPECT_EQ(only<Prepare>(driven.handle(RunSetUp{}, std::chrono::hours(6))).size(), 0u);
}

TEST(RunSetup, WhoeverStopsTheRunMeanwhileWaitsForNothing) {
  Driven driven(two_workers(), {.checkpoint = {}, .expected_nodes = 2, .sets_up = true});
  driven.nodes();

  const auto ended =
      only<RunEnded>(driven.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"}, seconds(1)));

  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, RunState::Stopped);
}

TEST(RunSetup, WorkersThatAreFoundRunningAreNotHeldUp) {
  LivingAttempt living;
  living.id = kFirst;
  living.placement = both();
  living.node_names = {"node-a", "node-b"};
  Driven driven(two_workers(),
                {.checkpoint = {}, .expected_nodes = 2, .living = living, .sets_up = true});
  EXPECT_EQ(driven.run.state(), RunState::Attaching);
  for (const NodeId node : {kNodeA, kNodeB}) {
    driven.handle(node_up(node, {kFirst}));
    driven.handle(SupervisorAttached{kFirst, node, true});
  }
  EXPECT_EQ(driven.run.state(), RunState::Running);
}

TEST(RunSetup, TheAttemptAfterWorkersThatWereFoundRunningWaitsForIt) {
  LivingAttempt living;
  living.id = kFirst;
  living.placement = both();
  living.node_names = {"node-a", "node-b"};
  Driven driven(two_workers(),
                {.checkpoint = {}, .expected_nodes = 2, .living = living, .sets_up = true});
  driven.handle(node_up(kNodeA));  // its supervisor has ended
  driven.handle(node_up(kNodeB));
  EXPECT_EQ(driven.run.state(), RunState::Scheduling);

  EXPECT_EQ(only<Prepare>(driven.handle(RunSetUp{}, seconds(1))).size(), 2u);
}

}  // namespace
}  // namespace train
