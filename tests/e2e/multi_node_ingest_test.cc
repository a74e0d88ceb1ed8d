// Ingest workers on other nodes than the ranks: rows come over Flight.
#include <gtest/gtest.h>
#include <signal.h>

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
  EXPECT_TRUE(nothing_left(cluster));
}

}  // namespace
}  // namespace train::e2e
