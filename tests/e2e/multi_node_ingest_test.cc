// Ingest workers on other nodes than the ranks: rows come over Flight.
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>

#include "tests/e2e/ingest_audit.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

TEST(MultiNodeIngest, RanksAreServedFromTheOtherNodeToo) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all();
  const AuditedRows audit(cluster);
  const std::string scaling = "placement_strategy: SPREAD, resources_per_worker: {CPU: 1}";
  ASSERT_EQ(nodes.train_run(audit.job("plain", "", scaling), 2).wait(), 0);
  const AuditedRows::Steps expected = audit.logged("plain");
  ASSERT_EQ(expected.size(), AuditedRows::kSteps);

  Process& run = nodes.train_run(audit.job("served", AuditedRows::ingest(2), scaling), 2);
  ASSERT_TRUE(audit.has_done("served", 20)) << run.out() << run.err();
  ASSERT_FALSE(audit.ingest_workers().empty());
  send_signal(audit.ingest_workers().front(), SIGKILL);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(audit.logged("served") == expected);
  // Over Flight, all have said that they serve, and nobody has read for itself.
  EXPECT_FALSE(contains(run.out() + run.err(), "reads for itself")) << run.out();
  EXPECT_TRUE(audit.all_have_ended());
}

/// Two nodes for ranks, and a third one for ingest workers.
class MultiNodeIngestApart : public ThreeNodes {
 protected:
  void SetUp() override {
    ThreeNodes::SetUp();
    if (IsSkipped()) return;
    audit_.emplace(*cluster);
    for (const int node : {0, 1})
      nodes->start(node, {"--resource", "CPU=2", "--resource", "trainer=1"});
    nodes->start(2);
    Process& plain = nodes->train_run(audit_->job("plain", "", kScaling), 3);
    ASSERT_EQ(plain.wait(), 0) << plain.out() << plain.err();
    expected_ = audit_->logged("plain");
    ASSERT_EQ(expected_.size(), AuditedRows::kSteps);
  }
  Process& start(int workers, const std::string& where) {
    return nodes->train_run(
        audit_->job("served", AuditedRows::ingest(workers, ", nodes: [" + where + "]"), kScaling),
        3);
  }
  std::vector<pid_t> on_third() const {
    std::vector<pid_t> pids;
    for (const pid_t pid : audit_->ingest_workers())
      if (network->holds(2, pid)) pids.push_back(pid);
    return pids;
  }
  /// Let the run go on to its end, and compare what it has logged.
  void expect_the_same_rows(Process& run) {
    EXPECT_EQ(run.wait(Seconds{120}), 0) << run.out() << run.err();
    EXPECT_TRUE(audit_->logged("served") == expected_);
    EXPECT_EQ(restarts(*cluster, "served"), 0);
  }

  static constexpr const char* kScaling =
      "placement_strategy: SPREAD, resources_per_worker: {CPU: 0, trainer: 1}";
  std::optional<AuditedRows> audit_;
  AuditedRows::Steps expected_;
};

TEST_F(MultiNodeIngestApart, ServesRanksOnOtherNodesAndIsReplacedWhenItIsKilled) {
  Process& run = start(2, "n2");
  ASSERT_TRUE(audit_->has_done("served", 20)) << run.out() << run.err();
  ASSERT_EQ(on_third().size(), 2u) << run.out() << run.err();
  EXPECT_EQ(audit_->ingest_workers().size(), 2u);
  send_signal(on_third().front(), SIGKILL);
  expect_the_same_rows(run);
  EXPECT_FALSE(contains(run.out() + run.err(), "reads for itself")) << run.out();
  EXPECT_TRUE(audit_->all_have_ended());
}

TEST_F(MultiNodeIngestApart, RanksGoOnWithThoseThatAreLeftWhenItsNetworkIsCut) {
  Process& run = start(3, "any");
  ASSERT_TRUE(audit_->has_done("served", 20)) << run.out() << run.err();
  ASSERT_EQ(on_third().size(), 1u) << run.out() << run.err();
  network->cut(2);
  expect_the_same_rows(run);
}

TEST_F(MultiNodeIngestApart, RanksReadForThemselvesWhenTheNetworkToAllOfThemIsCut) {
  Process& run = start(2, "n2");
  ASSERT_TRUE(audit_->has_done("served", 20)) << run.out() << run.err();
  network->cut(2);
  expect_the_same_rows(run);
}

}  // namespace
}  // namespace train::e2e
