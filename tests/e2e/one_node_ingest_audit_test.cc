// Which rows the ranks get, while ingest workers, ranks and all that watches them die or stand
// still: at each step those of an undisturbed run without ingest workers.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/ingest_audit.h"

namespace train::e2e {
namespace {

class IngestAudit : public ::testing::TestWithParam<std::string> {
 protected:
  Process& start(const std::string& name, const std::string& ingest) {
    return cluster.train_run({audit.job(name, ingest)});
  }
  void strike(const std::string& whom, Process*& run) {
    const auto signal_all = [&](const std::string& what, int number) {
      const auto found = cluster.processes(what);
      ASSERT_FALSE(found.empty()) << what;
      send_signal(found.front().pid, number);
    };
    if (whom == "IngestWorkerKilled" || whom == "IngestWorkerStopped") {
      ASSERT_TRUE(wait_until([&] { return !audit.ingest_workers().empty(); }));
      send_signal(audit.ingest_workers().front(), whom == "IngestWorkerKilled" ? SIGKILL : SIGSTOP);
    } else if (whom == "AllIngestWorkersKilled") {
      for (const pid_t pid : audit.ingest_workers()) send_signal(pid, SIGKILL);
    } else if (whom == "RankKilled") {
      send_signal(cluster.worker(1).value_or(-1), SIGKILL);
    } else if (whom == "SupervisorKilled") {
      signal_all(" supervise --run ", SIGKILL);
    } else if (whom == "TraindKilled") {
      signal_all("traind --private", SIGKILL);
    } else if (whom == "LauncherKilled") {
      run->signal(SIGKILL);
      ASSERT_EQ(run->wait(), 137);
      for (const pid_t pid : audit.ingest_workers()) send_signal(pid, SIGKILL);
      run = &cluster.train_run({"resume", cluster.run_dir("disturbed")});
    }
  }

  Cluster cluster;
  AuditedRows audit{cluster};
};

TEST_P(IngestAudit, TheSameRowsAtTheSameSteps) {
  Process& plain = start("plain", "");
  ASSERT_EQ(plain.wait(), 0) << plain.out() << plain.err();
  const AuditedRows::Steps expected = audit.logged("plain");
  ASSERT_EQ(expected.size(), AuditedRows::kSteps);

  Process* run = &start("disturbed", AuditedRows::ingest(2));
  for (const std::size_t after : {10u, 40u}) {
    ASSERT_TRUE(audit.has_done("disturbed", after)) << run->out() << run->err();
    strike(GetParam(), run);
  }
  const auto code = run->wait();

  EXPECT_EQ(code, 0) << run->out() << run->err();
  EXPECT_TRUE(audit.logged("disturbed") == expected);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(IngestDeaths, ARowThatKillsIngestWorkersIsNamedAndNoRankReadsIt) {
  Cluster cluster;
  const AuditedRows audit(cluster);
  Process& run =
      cluster.train_run({audit.job("deadly", AuditedRows::ingest(2),
                                   "resources_per_worker: {CPU: 0}", ", {die: {at: 3210}}]"),
                         "--set", "run_config.failure_config.max_failures=0"});

  EXPECT_NE(run.wait(), 0);

  const std::string said = run.out() + run.err();
  EXPECT_TRUE(contains(said, "3 ingest workers have ended while they read it")) << said;
  EXPECT_TRUE(contains(said, "part-3.csv")) << said;
}

INSTANTIATE_TEST_SUITE_P(Disturbances, IngestAudit,
                         testing::Values("Nothing", "IngestWorkerKilled", "IngestWorkerStopped",
                                         "AllIngestWorkersKilled", "RankKilled", "SupervisorKilled",
                                         "TraindKilled", "LauncherKilled"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace train::e2e
