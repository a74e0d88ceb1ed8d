#include "launcher/cluster/run/node_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

TEST(NodeProbes, AreReadFromTheOutputOfTheirRun) {
  const auto probes = read_probes(
      "train-run: starting\n"
      "@n1 {\"probe\":1,\"rank\":0,\"absent\":[],\"unreachable\":[1],\"clock_ms\":0,"
      "\"clock_within_ms\":0,\"sum_ms\":0.5,\"locked_memory\":8192,\"storage_missing\":[1,7]}\n"
      "@n2 {\"probe\":1,\"rank\":1,\"error\":\"no way\",\"locked_memory\":-1,"
      "\"storage_error\":\"full\"}\n");
  ASSERT_EQ(probes.size(), 2u);
  const NodeProbe& first = probes.at("n1");
  EXPECT_THAT(first.unreachable, ElementsAre("n2"));
  EXPECT_THAT(first.storage_missing, ElementsAre("n2", "rank 7"));
  EXPECT_EQ(first.clock_ms, 0);
  EXPECT_EQ(first.sum_ms, 0.5);
  EXPECT_EQ(first.locked_memory, 8192);
  EXPECT_EQ(probes.at("n2").error, "no way");
  EXPECT_EQ(probes.at("n2").storage_error, "full");
}

TEST(NodeProbes, WhatIsNoReportIsSkipped) {
  EXPECT_TRUE(read_probes("@n1 hello\n@n1 {\"x\":1}\n@ {\n{\"probe\":1}\n@n1 {\"probe\":").empty());
  const auto odd = read_probes(
      "@n1 {\"probe\":1,\"rank\":\"x\",\"absent\":3,\"unreachable\":[\"y\",{}],"
      "\"clock_ms\":[],\"locked_memory\":\"z\"}\n");
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_EQ(odd.at("n1").unreachable.size(), 2u);
  EXPECT_EQ(odd.at("n1").locked_memory, -1);
  EXPECT_FALSE(odd.at("n1").clock_ms);
}

TEST(NodeProbes, RunAsOneWorkerOnEachNodeThatClaimsNothing) {
  JobSpec spec;
  spec.run_config.storage_path = "/nfs/my runs";
  spec.cluster.token_file = "/etc/token";
  spec.cluster.ssh.traind = "/opt/traind";
  const auto words = probe_command("/bin/train-run", spec, {"n1:7070", "ssh:n2"}, "check-1");
  EXPECT_EQ(words[0], "/bin/train-run");
  EXPECT_THAT(words, IsSupersetOf({"--num-workers", "2", "--cpus", "0", "--hosts", "n1:7070,ssh:n2",
                                   "--token-file", "/etc/token", "--name", "check-1",
                                   "cluster.ssh.traind=\"/opt/traind\"",
                                   "scaling_config.placement_strategy=STRICT_SPREAD"}));
  EXPECT_THAT(words, Not(Contains("--tls")));
  EXPECT_EQ(words.back(), "/nfs/my runs");
}

}  // namespace
}  // namespace train
