// A training loop with the helpers of <train/torch_loop.h>, whose state crosses a restart.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <string>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Run loop_worker on two ranks. Return rank 0's metrics by step, without times; of a step that was
/// done again, the later ones.
std::map<std::string, std::string> run_loop(Cluster& cluster, const std::string& name,
                                            const std::string& config) {
  const std::string job =
      cluster.job(name,
                  "command: [" + program("loop_worker") + "]\ntrain_loop_config: {" + config +
                      "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n"
                      "backend_config: {deterministic: true}\n",
                  "  failure_config: {max_failures: 1}\n");
  EXPECT_EQ(cluster.run({job}), 0);
  std::map<std::string, std::string> by_step;
  for (const auto& line : cluster.metrics(name)) {
    if (text_of(line, "rank") != "0") continue;
    boost::json::object metrics = line.at("metrics").as_object();
    for (const char* time : {"time_this_iter_s", "time_total_s"})
      EXPECT_EQ(metrics.erase(time), 1u);
    by_step[text_of(metrics, "step")] = boost::json::serialize(metrics);
  }
  return by_step;
}

TEST(Loop, ARestartedRunEndsWithTheSameBits) {
  Cluster cluster;
  const auto whole = run_loop(cluster, "whole", "");
  const auto broken = run_loop(cluster, "broken", "die_at: 10");

  EXPECT_EQ(whole.size(), 5u);
  EXPECT_EQ(broken, whole);
  EXPECT_EQ(text_of(cluster.metrics("broken").back(), "attempt"), "1");
  const auto last = boost::json::parse(whole.at("20")).as_object();
  EXPECT_EQ(text_of(last, "skipped"), "1");
  EXPECT_EQ(text_of(last, "deterministic"), "1");
  EXPECT_EQ(text_of(last, "num_samples"), "60");  // of four steps: 1 + 2 + 3 and 2 + 3 + 4 rows
}

}  // namespace
}  // namespace train::e2e
