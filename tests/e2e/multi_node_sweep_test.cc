// A sweep whose trials share the nodes of a cluster.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

TEST(MultiNodeSweep, TrialsShareTheNodes) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all({"--resource", "CPU=2"});
  const std::string job = cluster.job(
      "job", fmt::format("command: [{}]\n"
                         "scaling_config: {{num_workers: 2, placement_strategy: STRICT_SPREAD}}\n"
                         "train_loop_config: {{mode: trial}}\n"
                         "sweep: {{metric: loss, time_attribute: epoch, search: grid, "
                         "parameters: {{x: {{choice: [4, 3, 2, 1, 5, 6]}}}}}}",
                         program("sdk_worker")));

  Process& sweep = cluster.train_run(
      {"sweep", job, "--hosts", nodes.hosts(2), "--token-file", cluster.path("token")});

  EXPECT_EQ(sweep.wait(std::chrono::minutes(2)), 0) << sweep.out() << sweep.err();
  EXPECT_TRUE(contains(sweep.out(), "6 of 6 trials: 6 finished\n")) << sweep.out();
  EXPECT_TRUE(contains(sweep.out(), "best: trial 3, ")) << sweep.out();
  for (int trial = 0; trial < 6; ++trial) {
    const std::string run = fmt::format("{}/trials/{:04}", cluster.run_dir("job"), trial);
    const std::string events = cluster.read(run + "/events.jsonl");
    for (const char* node : {"\"n0\"", "\"n1\""})
      EXPECT_TRUE(contains(events, node)) << trial << events;
  }
}

}  // namespace
}  // namespace train::e2e
