#include "launcher/cluster/run/node_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace train {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(NodeProbes, AreReadFromTheOutputOfTheirRun) {
  const auto probes = read_probes(
      "train-run: starting\n"
      "@n1 {\"probe\":1,\"rank\":0,\"absent\":[],\"unreachable\":[1],\"clock_ms\":0,"
      "\"clock_within_ms\":0,\"sum_ms\":0.5,\"locked_memory\":8192,\"storage_missing\":[1,7]}\n"
      "@n2 {\"probe\":1,\"rank\":1,\"error\":\"no way\",\"locked_memory\":-1,"
      "\"storage_error\":\"full\"}\n");
  ASSERT_EQ(probes.size(), 2u);
  const NodeProbe& first = probes.at("n1")[0];
  EXPECT_THAT(first.unreachable, ElementsAre("n2"));
  EXPECT_THAT(first.storage_missing, ElementsAre("n2", "rank 7"));
  EXPECT_EQ(first.clock_ms, 0);
  EXPECT_EQ(first.sum_ms, 0.5);
  EXPECT_EQ(first.locked_memory, 8192);
  EXPECT_EQ(probes.at("n2")[0].error, "no way");
  EXPECT_EQ(probes.at("n2")[0].storage_error, "full");
}

TEST(NodeProbes, OfNodesOfOneNameAreAllThere) {
  const auto probes = read_probes(
      "@n1 {\"probe\":1,\"rank\":0,\"error\":\"no way\"}\n@n1 {\"probe\":1,\"rank\":1}\n");
  ASSERT_EQ(probes.at("n1").size(), 2u);
  EXPECT_EQ(probes.at("n1")[0].error, "no way");
}

TEST(NodeProbes, AListThatWasCutSaysHowLongItWas) {
  const auto probes = read_probes(
      "@n1 {\"probe\":1,\"rank\":0,\"absent\":[1,2],\"absent_in_all\":300,"
      "\"unreachable\":[1],\"unreachable_in_all\":-7,\"storage_missing\":[],\"storage_missing_in_"
      "all\":99999999}\n");
  EXPECT_EQ(probes.at("n1")[0].absent.size(), 300u);
  EXPECT_EQ(probes.at("n1")[0].unreachable.size(), 1u);
  EXPECT_EQ(probes.at("n1")[0].storage_missing.size(), 16'384u);
}

TEST(NodeProbes, WhatIsNoReportIsSkipped) {
  EXPECT_TRUE(read_probes("@n1 hello\n@n1 {\"x\":1}\n@ {\n{\"probe\":1}\n@n1 {\"probe\":").empty());
  const auto odd = read_probes(
      "@n1 {\"probe\":1,\"rank\":\"x\",\"absent\":3,\"unreachable\":[\"y\",{}],"
      "\"clock_ms\":[],\"locked_memory\":\"z\"}\n");
  ASSERT_EQ(odd.size(), 1u);
  EXPECT_EQ(odd.at("n1")[0].unreachable.size(), 2u);
  EXPECT_EQ(odd.at("n1")[0].locked_memory, -1);
  EXPECT_FALSE(odd.at("n1")[0].clock_ms);
}

TEST(NodeProbes, RunAsOneWorkerOnEachNodeThatClaimsNothing) {
  JobSpec spec;
  spec.run_config.storage_path = "/nfs/my runs";
  spec.cluster.token_file = "/etc/token";
  spec.cluster.ssh.traind = "/opt/traind";
  const auto words = probe_command("/bin/train-run", spec, {"n1:7070", "ssh:n2"}, "check-1");
  EXPECT_EQ(words[0], "/bin/train-run");
  const auto after = [&](const std::string& word) {
    const auto at = std::find(words.begin(), words.end(), word);
    return at == words.end() || at + 1 == words.end() ? "" : *(at + 1);
  };
  EXPECT_EQ(after("--num-workers"), "2");
  EXPECT_EQ(after("--cpus"), "0");
  EXPECT_EQ(after("--hosts"), "n1:7070,ssh:n2");
  EXPECT_EQ(after("--token-file"), "/etc/token");
  EXPECT_EQ(after("--name"), "check-1");
  EXPECT_EQ(after("--on-driver-exit"), "stop");
  for (const char* set :
       {"cluster.ssh.traind=\"/opt/traind\"", "scaling_config.placement_strategy=STRICT_SPREAD",
        "run_config.failure_config.orphan_timeout=10s"}) {
    const auto at = std::find(words.begin(), words.end(), set);
    ASSERT_NE(at, words.end()) << set;
    EXPECT_EQ(*(at - 1), "--set");
  }
  EXPECT_THAT(words, Not(Contains("--tls")));
  EXPECT_EQ(words.back(), "/nfs/my runs");
}

}  // namespace
}  // namespace train
