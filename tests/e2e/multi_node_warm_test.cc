// train::WarmTrainer with a worker on each of two nodes.
#include "tests/e2e/multi_node.h"
#include "tests/e2e/warm_drivers.h"

namespace train::e2e {
namespace {

class WarmNodes : public WarmDrivers {
 protected:
  void SetUp() override { nodes.start_all(); }
  Process& drive(const std::vector<std::string>& words) override {
    std::vector<std::string> argv{program("warm_driver")};
    argv.insert(argv.end(), words.begin(), words.end());
    auto env = environment();
    env.insert({{"TRAINRUN_CLUSTER", nodes.hosts(2)},
                {"TRAINRUN_TOKEN_FILE", cluster.path("token")},
                {"STRATEGY", "STRICT_SPREAD"}});
    return cluster.start(argv, {.env = env, .prefix = {}, .cwd = ""});
  }
  /// Let the driver, which waits after its first run, do the second one. Return both.
  std::vector<WarmRun> second_run_of(Process& driver) const {
    cluster.write("go", "");
    EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();
    std::vector<WarmRun> all = runs(driver);
    EXPECT_EQ(all.size(), 2u) << driver.out() << driver.err();
    all.resize(2);
    EXPECT_TRUE(all[1].first_line.starts_with("result run_002 succeeded")) << all[1].first_line;
    EXPECT_TRUE(wait_until([&] { return cluster.workers().empty(); }));
    return all;
  }
  Nodes nodes{cluster, 2};
};

TEST_F(WarmNodes, TheSameWorkersDoTheNextRun) {
  Process& driver = drive({"waiting"});
  ASSERT_NO_FATAL_FAILURE(wait_for_first_run(driver));
  EXPECT_EQ(nodes.workers_on(0).size(), 1u);
  EXPECT_EQ(nodes.workers_on(1).size(), 1u);
  const auto all = second_run_of(driver);
  expect_same_workers(all[0], all[1]);
}

TEST_F(WarmNodes, TheyOutliveTheirTraind) {
  Process& driver = drive({"waiting"});
  ASSERT_NO_FATAL_FAILURE(wait_for_first_run(driver));
  nodes.daemon(1).signal(SIGKILL);
  nodes.daemon(1).wait();
  nodes.start(1);
  const auto all = second_run_of(driver);
  expect_same_workers(all[0], all[1]);
}

// The other node's workers are of no use without them.
TEST_F(WarmNodes, IfThoseOfOneNodeHaveEndedAllAreStartedAnew) {
  Process& driver = drive({"waiting"});
  ASSERT_NO_FATAL_FAILURE(wait_for_first_run(driver));
  send_signal(nodes.supervisor_on(1).value_or(-1), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 1; }));
  const auto all = second_run_of(driver);
  ASSERT_EQ(all[1].ranks.size(), 2u);
  EXPECT_EQ(numbers({all[1]}, "loops"), (std::vector<std::int64_t>{1, 1}));
  EXPECT_NE((driver.out() + driver.err()).find("the workers of the run before are not used"),
            std::string::npos)
      << driver.out() << driver.err();
}

}  // namespace
}  // namespace train::e2e
