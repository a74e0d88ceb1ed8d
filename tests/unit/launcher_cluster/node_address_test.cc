#include "launcher/cluster/links/node_address.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(AddressForPeers, IsTheOneThatTheLauncherReached) {
  EXPECT_EQ(address_for_peers("10.1.0.7", {"192.168.0.7", "10.1.0.7", "127.0.0.1"}), "10.1.0.7");
}

TEST(AddressForPeers, IsTheNodesOwnBehindAForwardedPort) {
  EXPECT_EQ(address_for_peers("203.0.113.9", {"10.1.0.7", "127.0.0.1"}), "10.1.0.7");
}

TEST(AddressForPeers, IsNotLoopbackThoughTheLauncherRunsOnTheNode) {
  EXPECT_EQ(address_for_peers("127.0.0.1", {"127.0.0.1", "10.1.0.7"}), "10.1.0.7");
  EXPECT_EQ(address_for_peers("", {"127.0.0.1", "10.1.0.7"}), "10.1.0.7");
}

TEST(AddressForPeers, IsLoopbackWhereThereIsNothingElse) {
  EXPECT_EQ(address_for_peers("127.0.1.1", {"127.0.0.1"}), "127.0.1.1");
  EXPECT_EQ(address_for_peers("", {}), "127.0.0.1");
}

TEST(OnThisMachine, IsANodeThatHasAllAddressesThatWeHave) {
  EXPECT_TRUE(on_this_machine({"10.1.0.7", "127.0.0.1"}, {"127.0.0.2", "10.1.0.7", "127.0.0.1"}));
  EXPECT_TRUE(on_this_machine({"127.0.0.1"}, {"127.0.0.1"}));
}

// Every machine with containers has 172.17.0.1.
TEST(OnThisMachine, IsNoNodeBehindATunnel) {
  EXPECT_FALSE(on_this_machine({"10.1.0.7", "172.17.0.1", "127.0.0.1"},
                               {"10.1.0.8", "172.17.0.1", "127.0.0.1"}));
}

TEST(SharesAddress, ComparesOnlyAddressesThatOthersReach) {
  EXPECT_TRUE(shares_address({"10.1.0.7", "fd00::7", "127.0.0.1"}, {"fd00::7", "127.0.0.1"}));
  EXPECT_FALSE(shares_address({"10.1.0.7", "127.0.0.1", "::1"}, {"10.1.0.8", "127.0.0.1", "::1"}));
  EXPECT_FALSE(shares_address({}, {}));
}

TEST(AddressForPeers, MayBeIpv6) {
  EXPECT_EQ(address_for_peers("fd00::7", {"10.1.0.7", "fd00::7", "::1"}), "fd00::7");
}

}  // namespace
}  // namespace train
