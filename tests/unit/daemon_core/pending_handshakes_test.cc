#include "daemon/core/pending_handshakes.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(PendingHandshakes, AreLimitedAndTheOldestOfTheBusiestAddressGoes) {
  PendingHandshakes pending;
  EXPECT_EQ(pending.begin(1, "10.0.0.1"), std::nullopt);
  for (std::uint64_t id = 2; id <= PendingHandshakes::kMax; ++id)
    EXPECT_EQ(pending.begin(id, "10.0.0.66"), std::nullopt);

  EXPECT_EQ(pending.begin(1000, "10.0.0.2"), 2u);
  EXPECT_EQ(pending.begin(1001, "10.0.0.66"), 3u);

  EXPECT_EQ(pending.size(), PendingHandshakes::kMax);
}

TEST(PendingHandshakes, OneThatIsOverMakesRoom) {
  PendingHandshakes pending;
  for (std::uint64_t id = 1; id <= PendingHandshakes::kMax; ++id) pending.begin(id, "a");
  pending.end(5);
  pending.end(5);
  pending.end(12345);
  EXPECT_EQ(pending.begin(1000, "b"), std::nullopt);
  EXPECT_EQ(pending.begin(1001, "b"), 1u);
}

TEST(PendingHandshakes, AFloodNeverClosesALauncherThatIsQuick) {
  PendingHandshakes pending;
  std::uint64_t next = 1;
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t launcher = next++;
    EXPECT_NE(pending.begin(launcher, "10.0.0.1"), std::optional(launcher));
    for (int peer = 0; peer < 500; ++peer)
      EXPECT_NE(pending.begin(next++, "10.0.0.66"), std::optional(launcher));
    pending.end(launcher);
  }
}

// Each address has one connection. The order of the addresses must not matter.
TEST(PendingHandshakes, ALauncherAmongManyAddressesIsNotTheOneToGo) {
  for (const std::string launcher : {"10.0.0.0", "99.0.0.1", "10.0.0.33"}) {
    PendingHandshakes pending;
    for (std::uint64_t id = 1; id <= PendingHandshakes::kMax; ++id)
      pending.begin(id, "10.0.1." + std::to_string(id));
    EXPECT_EQ(pending.begin(1000, launcher), 1u);
    EXPECT_EQ(pending.begin(1001, "10.0.2.1"), 2u);
  }
}

// The owner of one IPv6 address has 2^64 of them.
TEST(PendingHandshakes, ANetworkOfOneMachineCountsAsOneAddress) {
  PendingHandshakes pending;
  pending.begin(1, "10.0.0.1");
  pending.begin(2, "[2001:db8:0:1::5]");
  for (std::uint64_t id = 3; id <= PendingHandshakes::kMax; ++id)
    pending.begin(id, "[2001:db8:0:2::" + std::to_string(id) + "]");
  EXPECT_EQ(pending.begin(1000, "[2001:db8:0:1::6]"), 3u);
  EXPECT_EQ(pending.begin(1001, "::ffff:10.0.0.2"), 4u);
}

}  // namespace
}  // namespace train
