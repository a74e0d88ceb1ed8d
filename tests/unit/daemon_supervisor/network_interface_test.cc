#include "daemon/supervisor/network_interface.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(NetworkInterface, IsTheOneThatHasTheAddress) { EXPECT_EQ(interface_of("127.0.0.1"), "lo"); }

TEST(NetworkInterface, OfAnIpv6Address) {
  const std::string name = interface_of("::1");
  if (name.empty()) GTEST_SKIP() << "needs IPv6";
  EXPECT_EQ(name, "lo");
}

TEST(NetworkInterface, OfAnAddressThatIsNotHereThereIsNone) {
  EXPECT_EQ(interface_of("203.0.113.7"), "");  // RFC 5737: of no machine
  EXPECT_EQ(interface_of("localhost"), "");
  EXPECT_EQ(interface_of(""), "");
}

}  // namespace
}  // namespace train
