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
            "refusing to send the workers' environment to node-a:7433: whoever listens there would "
            "get it");
}

TEST(CheckNodes, WhatIsNoAddressIsSaid) { EXPECT_FALSE(check_nodes({"node-a:port"}, true)); }

}  // namespace
}  // namespace train
