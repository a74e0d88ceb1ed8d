// Simulates runs that share a pool of nodes: all of them have their turn, in the queue's order.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/pool.h"

namespace train::sim {
namespace {

PoolPlan random_plan(std::uint64_t seed) {
  Random random(seed);
  PoolPlan plan{.seed = seed, .nodes = random.between(1, 6), .runs = {}};
  const int runs = random.between(2, 20);
  for (int i = 0; i < runs; ++i) {
    PoolRunPlan run;
    run.at = random.between(Duration{0}, seconds(120));
    run.cpus = random.between(1, 4);
    const int fit = plan.nodes * static_cast<int>(plan.cpus / run.cpus);
    run.workers = random.between(1, fit);
    if (random.chance(0.3)) run.workers_max = random.between(run.workers, fit);
    if (plan.nodes > 1 && random.chance(0.3)) {  // it knows some of the nodes only
      for (int node = 0; node < plan.nodes; ++node)
        if (random.chance(0.6)) run.nodes.push_back(node);
      const int known = static_cast<int>(run.nodes.empty() ? plan.nodes : run.nodes.size());
      run.workers = random.between(1, known * static_cast<int>(plan.cpus / run.cpus));
      run.workers_max = 0;
    }
    run.priority = random.chance(0.3) ? random.between(-2, 2) : 0;
    run.owner = random.chance(0.5) ? "ada" : "bob";
    run.takes = random.between(milliseconds(100), seconds(60));
    run.failures = random.chance(0.3) ? random.between(1, 3) : 0;
    run.dies = random.chance(0.1);
    if (random.chance(0.3)) run.strategy = PlacementStrategy::Spread;
    if (random.chance(0.1) && run.nodes.empty() && run.workers <= plan.nodes)
      run.strategy = PlacementStrategy::StrictSpread;
    plan.runs.push_back(run);
  }
  return plan;
}

TEST(PoolSimulation, EveryRunHasItsTurnAndNobodyTakesWhatIsKeptForAnother) {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 250 && !HasFailure(); ++seed) {
    Pool pool(random_plan(seed));
    pool.run();
    EXPECT_EQ(pool.violation(), "");
    checked += pool.checked();
  }
  EXPECT_GT(checked, 10);
}

/// A stream of small runs that come one after the other for 20 minutes, and a large one that needs
/// all nodes and comes in the midst of them.
PoolPlan stream_and_large() {
  PoolPlan plan;
  for (int i = 0; i < 240; ++i) {
    PoolRunPlan small;
    small.at = seconds(5) * i;
    small.cpus = 2;
    small.takes = seconds(35);
    plan.runs.push_back(small);
  }
  PoolRunPlan large;
  large.at = seconds(301);
  large.workers = 8;
  large.cpus = 2;
  plan.runs.push_back(large);
  return plan;
}
constexpr int kLarge = 240;

TEST(PoolSimulation, ALargeRunIsNotStarvedBySmallOnes) {
  Pool pool(stream_and_large());
  pool.run();
  EXPECT_EQ(pool.violation(), "");
  EXPECT_LT(pool.began(kLarge), pool.started() + seconds(301 + 35 + 2));
}

TEST(PoolSimulation, ItWouldBeIfNodesKeptNoRoom) {
  PoolPlan plan = stream_and_large();
  plan.keeps_no_room = true;
  Pool pool(plan);
  pool.run();
  EXPECT_NE(pool.violation().find("keeps for run-240"), std::string::npos) << pool.violation();
}

TEST(PoolSimulation, ALargeRunIsNotStarvedByAnotherOwnerWithASmallerShare) {
  PoolPlan plan{.nodes = 5, .runs = {}};
  const auto add = [&](const std::string& owner, Duration at, int nodes, Duration takes) {
    PoolRunPlan run;
    run.owner = owner;
    run.at = at;
    run.workers = nodes;
    run.cpus = 4;
    run.takes = takes;
    plan.runs.push_back(run);
  };
  add("ada", seconds(0), 2, std::chrono::hours(2));
  add("ada", seconds(60), 3, seconds(10));  // and these are the three nodes that are left
  for (int i = 0; i < 400; ++i) add("bob", seconds(30) + seconds(10) * i, 1, seconds(15));
  Pool pool(plan);
  pool.run();
  EXPECT_EQ(pool.violation(), "");
  EXPECT_LT(pool.began(1), pool.started() + seconds(60) + std::chrono::minutes(12));
}

TEST(PoolSimulation, LargeRunsDoNotTakeHalfOfTheNodesEachAgainAndAgain) {
  for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    PoolPlan plan{.seed = seed, .runs = {}};
    for (int i = 0; i < 6; ++i) {
      PoolRunPlan run;
      run.workers = 4;
      run.cpus = 4;
      run.takes = seconds(2);
      plan.runs.push_back(run);
    }
    Pool pool(plan);
    pool.run();
    EXPECT_EQ(pool.violation(), "");
    // At first all of them try at once, and at most the first two seconds are lost by that.
    EXPECT_LT(pool.ended(), pool.started() + seconds(6 * 2 + 3));
  }
}

/// Return the runs in the order in which they began.
std::vector<int> order(const Pool& pool, int runs) {
  std::vector<int> numbers;
  for (int i = 0; i < runs; ++i) numbers.push_back(i);
  std::sort(numbers.begin(), numbers.end(),
            [&](int a, int b) { return pool.began(a) < pool.began(b); });
  return numbers;
}

/// A run that takes a node for itself.
PoolRunPlan one_node(Duration at, const std::string& owner = "ada", int priority = 0) {
  PoolRunPlan run;
  run.at = at;
  run.cpus = 4;
  run.owner = owner;
  run.priority = priority;
  return run;
}

TEST(PoolSimulation, RunsOfOneOwnerBeginInTheOrderInWhichTheyCame) {
  PoolPlan plan{.nodes = 1, .runs = {}};
  for (int i = 0; i < 5; ++i) plan.runs.push_back(one_node(milliseconds(100) * i));
  Pool pool(plan);
  pool.run();
  EXPECT_EQ(order(pool, 5), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(PoolSimulation, AHigherPriorityGoesFirst) {
  PoolPlan plan{.nodes = 1, .runs = {}};
  plan.runs = {one_node(seconds(0)), one_node(seconds(1)), one_node(seconds(2), "ada", 5),
               one_node(seconds(3), "ada", 9)};
  Pool pool(plan);
  pool.run();
  EXPECT_EQ(order(pool, 4), (std::vector<int>{0, 3, 2, 1}));
}

TEST(PoolSimulation, OwnersShareThePoolHoweverManyRunsEachHas) {
  PoolPlan plan{.nodes = 2, .runs = {}};
  // Ada has two nodes, and asks for six more before Bob comes.
  for (int i = 0; i < 8; ++i) plan.runs.push_back(one_node(milliseconds(100) * i));
  for (int i = 0; i < 2; ++i) plan.runs.push_back(one_node(seconds(2) + milliseconds(i), "bob"));
  for (PoolRunPlan& run : plan.runs) run.takes = seconds(10);
  plan.runs[1].takes = seconds(15);  // so that the nodes become free in turn
  Pool pool(plan);
  pool.run();
  const std::vector<int> began = order(pool, 10);
  EXPECT_EQ(began[2], 8);  // Bob's first run is the first to begin once a node is free
  EXPECT_EQ(std::count(began.begin() + 2, began.begin() + 6, 8) +
                std::count(began.begin() + 2, began.begin() + 6, 9),
            2);  // and both of his have begun when two more of hers have
}

TEST(PoolSimulation, ARunThatRestartsKeepsItsRoom) {
  PoolPlan plan{.nodes = 1, .runs = {}};
  plan.runs = {one_node(seconds(0)), one_node(seconds(1), "bob", 9)};
  plan.runs[0].failures = 3;
  Pool pool(plan);
  pool.run();
  EXPECT_EQ(pool.violation(), "");
  EXPECT_GT(pool.began(1), pool.started() + seconds(3 * 5 + 10));
}

}  // namespace
}  // namespace train::sim
