// Programs without the SDK: what they say of others, name or leave behind does no harm to the run,
// its supervisor or the user's files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string hostile_job(const Cluster& cluster, const std::string& words, int workers) {
  return cluster.job("job", "command: [" + program("hostile_worker") + ", " + words +
                                "]\nscaling_config: {num_workers: " + std::to_string(workers) +
                                ", resources_per_worker: {CPU: 0}}");
}

TEST(Hostile, AResultIsThatOfTheConnectionsRank) {
  for (const std::string rank : {"-1000000", "-3", "2000000000", "0"}) {
    Cluster cluster;

    Process& run = cluster.train_run({hostile_job(cluster, "result, \"" + rank + "\"", 2)});

    ASSERT_EQ(run.wait(), 0) << rank << run.err();
    const auto results = cluster.run_json("job").at("results").as_array();
    ASSERT_EQ(results.size(), 2u) << rank;
    EXPECT_EQ(boost::json::serialize(results), R"([{"from":0},{"from":1}])") << rank;
    EXPECT_TRUE(nothing_left(cluster));
  }
}

TEST(Hostile, AFolderThatIsNotItsOwnIsNeitherMovedNorRemoved) {
  Cluster cluster;
  const std::string precious = cluster.path("precious");
  ASSERT_EQ(::mkdir(precious.c_str(), 0700), 0);
  cluster.write("precious/thesis.txt", "years of work");

  Process& run = cluster.train_run({hostile_job(cluster, "staged, " + precious, 1)});

  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(contains(run.out(), "ended by the supervisor")) << run.out();
  EXPECT_EQ(cluster.read(precious + "/thesis.txt"), "years of work");
  EXPECT_EQ(cluster.checkpoints("job").size(), 0u);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Hostile, ReportsThatDoNotWaitEndTheConnectionAndNotTheSupervisor) {
  Cluster cluster;

  Process& run = cluster.train_run({hostile_job(cluster, "flood", 1)});

  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Hostile, ErrorFilesThatCannotBeReadKeepNobodyWaiting) {
  for (const std::string kind : {"fifo", "huge"}) {
    Cluster cluster;

    Process& run = cluster.train_run({hostile_job(cluster, kind, 1)});

    ASSERT_EQ(run.wait(), 3) << kind << run.err();
    EXPECT_TRUE(nothing_left(cluster)) << kind;
  }
}

}  // namespace
}  // namespace train::e2e
