// A rank that is slower than the others is named; a healthy group is not accused.
#include <gtest/gtest.h>
#include <signal.h>

#include <regex>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Write a job of six ranks: of fewer, it takes more windows until nobody calls it chance. `config`
/// continues train_loop_config.
std::string stepping(const Cluster& cluster, const std::string& config) {
  return cluster.job(
      "job", "command: [" + program("stepping_worker") + "]\ntrain_loop_config: {" + config +
                 "}\nscaling_config: {num_workers: 6, resources_per_worker: {CPU: 0}}");
}

std::vector<boost::json::object> events(const Cluster& cluster, const std::string& name) {
  std::vector<boost::json::object> found;
  for (auto& record : cluster.journal("job"))
    if (text_of(record, "event") == name) found.push_back(std::move(record));
  return found;
}

TEST(Stragglers, AreNamedWithRankPhaseAndOddsUntilTheyAreFastAgain) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {stepping(cluster, "step_ms: 10, slow_rank: 2, slow_ms: 20, slow_until: 600")});
  ASSERT_TRUE(wait_until([&] { return events(cluster, "straggler_cleared").size() == 1; }));
  run.signal(SIGINT);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);

  const auto named = events(cluster, "straggler");
  ASSERT_EQ(named.size(), 1u);  // once, and not in each window
  EXPECT_EQ(text_of(named[0], "ranks"), "[2]");
  EXPECT_EQ(text_of(named[0], "phase"), "step");
  EXPECT_GT(named[0].at("behind").to_number<double>(), 0.5);
  EXPECT_LE(named[0].at("odds").to_number<double>(), 1e-4);
  const std::string said = run.out() + run.err();
  const std::regex expected(
      R"(rank 2 on \S+ is slow: \d+ % behind the median in step for [0-9.]+ s \(odds that this is chance: 1 in [0-9,]+\))");
  EXPECT_TRUE(std::regex_search(said, expected)) << said;
  EXPECT_TRUE(std::regex_search(said, std::regex(R"(rank 2 on \S+ is no longer slow, after )")))
      << said;
}

TEST(Stragglers, AreNotSeenInAHealthyGroup) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({stepping(cluster, "step_ms: 20, steps: 500")}), 0);
  EXPECT_EQ(events(cluster, "straggler").size(), 0u);
}

}  // namespace
}  // namespace train::e2e
