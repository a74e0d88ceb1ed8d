#include "launcher/cluster/links/cluster_links.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(CheckNodes, WithoutATokenOnlyTheSocketOfATraindHereIsTrusted) {
  EXPECT_TRUE(check_nodes({}, false));
  EXPECT_TRUE(check_nodes({"unix:/run/traind.sock"}, false));
  EXPECT_TRUE(check_nodes({"unix:/run/traind.sock", "node-a:7433"}, true));

  const auto refused = check_nodes({"unix:/run/traind.sock", "node-a:7433"}, false);

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Unauthenticated);
  EXPECT_EQ(refused.error().message,
            "refusing to send the workers' environment to node-a:7433: anyone listening there "
            "would receive it");
}

TEST(CheckNodes, WhatIsNoAddressIsSaid) { EXPECT_FALSE(check_nodes({"node-a:port"}, true)); }

const RunIdentity kRun{"id-1", "vit", Generation{3}, "/runs/vit", "marker-1"};

TEST(LinkOptions, WaitForATraindThatIsAwayForAsLongAsItsWorkersDo) {
  RunConfig config;
  FailureConfig& failure = config.failure_config;
  failure.node_dead_after = seconds(10);
  for (const auto& [orphan_timeout, waits] :
       {std::pair<Duration, Duration>{std::chrono::minutes(25), std::chrono::minutes(25)},
        std::pair<Duration, Duration>{seconds(0), seconds(10)}}) {
    failure.orphan_timeout = orphan_timeout;
    const DaemonLinkOptions link = link_options(config, kRun, "test");
    EXPECT_EQ(link.limits.away_limit, waits);
    EXPECT_EQ(milliseconds(link.attach.orphan_timeout_ms), orphan_timeout);
    EXPECT_EQ(link.limits.dead_after, seconds(10));
  }
}

TEST(LinkOptions, SayWhoTheLauncherIsAndHowLongItWaits) {
  RunConfig config;
  FailureConfig& failure = config.failure_config;
  failure.node_suspect_after = milliseconds(900);
  failure.node_dead_after = milliseconds(2500);
  failure.orphan_timeout = milliseconds(8000);
  config.user = "alice";

  const DaemonLinkOptions link = link_options(config, kRun, "test");

  EXPECT_EQ(link.attach.run_id, "id-1");
  EXPECT_EQ(link.attach.run_name, "vit");
  EXPECT_EQ(link.attach.generation, 3u);
  EXPECT_EQ(link.attach.user, "alice");
  EXPECT_EQ(link.attach.heartbeat_ms, 300);
  EXPECT_EQ(link.attach.dead_after_ms, 2500);
  EXPECT_EQ(link.attach.orphan_timeout_ms, 8000);
  EXPECT_EQ(link.limits.suspect_after, milliseconds(900));
  EXPECT_EQ(link.limits.dead_after, milliseconds(2500));
  EXPECT_EQ(link.limits.away_limit, milliseconds(8000));

  failure.node_suspect_after = seconds(30);
  EXPECT_EQ(link_options(config, kRun, "test").attach.heartbeat_ms, 1000);
}

}  // namespace
}  // namespace train
