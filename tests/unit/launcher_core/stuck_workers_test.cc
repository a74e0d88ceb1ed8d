// Workers that cannot be killed: their node is named and left out, and the run goes on.
#include "launcher/core/stuck_workers.h"

#include <gtest/gtest.h>

#include "launcher/core/run_history.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

RankSample in_kernel(int rank, const std::string& state = "D") {
  RankSample sample{.rank = Rank{rank}};
  sample.progress.intervals.resize(kPhases.size());
  sample.process = {.pid = 4711,
                    .state = state,
                    .waits_in = "request_wait_answer",
                    .processes = 1,
                    .waits_for = "read of '/data/x' (fuse at /data)"};
  return sample;
}

struct Group {
  Group() { nodes.up(node_up(kNodeB)); }
  std::vector<StuckWorkers::Stuck> find(TimePoint now) const {
    return workers.find(ranks, nodes, kStart, now);
  }
  StuckWorkers workers;
  RankTable ranks{both()};
  NodePool nodes{2};
};

TEST(StuckWorkers, AreNamedWithTheCallTheFileAndTheMountHalfAMinuteAfterSigkill) {
  Group group;
  group.workers.sampled(in_kernel(1), kStart + seconds(29));
  EXPECT_TRUE(group.find(kStart + seconds(29)).empty());
  group.workers.sampled(in_kernel(1), kStart + seconds(30));

  const auto found = group.find(kStart + seconds(30));

  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].node, kNodeB);
  EXPECT_EQ(found[0].text,
            "rank 1 on node-b (pid 4711) cannot be killed: it waits in the kernel (state D), in "
            "read of '/data/x' (fuse at /data), in request_wait_answer. Until it ends, its node is "
            "left out, and what it has claimed there stays claimed");
}

TEST(StuckWorkers, AreNotThoseThatAreOnlyBeingKilledOrOfWhichNothingIsKnown) {
  const TimePoint late = kStart + seconds(100);
  Group sleeping;
  sleeping.workers.sampled(in_kernel(1, "S"), late);
  EXPECT_TRUE(sleeping.find(late).empty());

  Group silent;
  silent.workers.sampled(in_kernel(1), late - kSampleAgeMax - seconds(1));
  EXPECT_TRUE(silent.find(late).empty());

  Group ended;
  ended.workers.sampled(in_kernel(1), late);
  ended.ranks.ended(Rank{1}, killed(SIGKILL));
  EXPECT_TRUE(ended.find(late).empty());
}

struct StuckRun : Driven {
  StuckRun() : Driven(two_workers(1), {.checkpoint = {}, .expected_nodes = 3}) {
    handle(node_up(kNodeC));
    running();
    handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)});
    handle(NodeGroupGone{kFirst, kNodeA});
  }
  Actions sampled(Duration after) { return handle(RanksSampled{kFirst, {in_kernel(1)}}, after); }
};

TEST(StuckRun, GoesOnWithoutTheNode) {
  StuckRun stuck;
  ASSERT_EQ(stuck.run.state(), RunState::TearingDown);
  stuck.sampled(seconds(20));
  ASSERT_EQ(stuck.run.state(), RunState::TearingDown);

  const Actions actions = stuck.sampled(kSurvivorGrace + kStuckAfter);

  const auto ended = only<AttemptEnded>(actions);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].stuck, std::vector<NodeId>{kNodeB});
  const auto told = only<NodeStateChanged>(actions);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), (NodeStateChanged{"node-b", NodeState::Stuck,
                                           "a worker of attempt 0 there cannot be killed"}));
  EXPECT_NE(ended[0].cause.find("rank 1 on node-b (pid 4711) cannot be killed"), std::string::npos);
  EXPECT_EQ(only<Release>(actions), (std::vector<Release>{{kFirst, kNodeA}, {kFirst, kNodeB}}));
  const auto begun = only<AttemptBegun>(actions);  // at once
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].node_names, (std::vector<std::string>{"node-a", "node-c"}));
}

// As long as it lives, it is among the attempts that its traind tells of.
TEST(StuckRun, UsesTheNodeAgainOnceTheWorkerHasEnded) {
  JobSpec spec = two_workers(1);
  spec.scaling_config.placement_strategy = PlacementStrategy::StrictSpread;
  Driven driven(spec);
  driven.running();
  driven.handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)});
  driven.handle(NodeGroupGone{kFirst, kNodeA});
  const Duration later = kSurvivorGrace + kStuckAfter;
  driven.handle(RanksSampled{kFirst, {in_kernel(1)}}, later);
  ASSERT_EQ(driven.run.state(), RunState::Scheduling);
  driven.handle(node_up(kNodeB, {kFirst}), later + seconds(5));
  ASSERT_EQ(driven.run.state(), RunState::Scheduling);

  const Actions actions = driven.handle(node_up(kNodeB), later + seconds(6));

  const auto begun = only<AttemptBegun>(actions);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].node_names, (std::vector<std::string>{"node-a", "node-b"}));
  ASSERT_FALSE(only<Note>(actions).empty());
  EXPECT_EQ(only<Note>(actions)[0].text,
            "the worker on node-b that could not be killed has ended: the node may be used again");
}

TEST(StuckRun, EndsWhereNoNodeIsLeft) {
  JobSpec spec = two_workers(3);
  spec.scaling_config.placement_strategy = PlacementStrategy::Pack;
  Driven driven(spec, {.checkpoint = {}, .expected_nodes = 1});
  driven.handle(node_up(kNodeA));
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});
  driven.handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}, {Rank{1}, 101}}});
  driven.handle(RankExited{kFirst, Rank{0}, killed(SIGSEGV)});

  const auto ended = only<RunEnded>(
      driven.handle(RanksSampled{kFirst, {in_kernel(1)}}, kSurvivorGrace + kStuckAfter));

  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, RunState::Errored);
  EXPECT_EQ(ended[0].reason, "no node is left without a worker that cannot be killed");
}

TEST(StuckRun, ALaterLauncherLeavesTheNodeOutToo) {
  StuckRun stuck;
  const auto ended = only<AttemptEnded>(stuck.sampled(kSurvivorGrace + kStuckAfter));
  ASSERT_EQ(ended.size(), 1u);

  RunHistory history(FailureConfig{}, /*elastic=*/false);
  history.add(Generation{1}, "now", record_of(ended[0], ended[0].cause));

  const std::map<NodeId, Attempt> stuck_there{{kNodeB, kFirst}};
  EXPECT_EQ(history.failures().stuck, stuck_there);
  history.add(Generation{1}, "later", record_of(RunEnded{RunState::Errored, "given up", {}}));
  EXPECT_EQ(history.failures().stuck, stuck_there);
}

}  // namespace
}  // namespace train
