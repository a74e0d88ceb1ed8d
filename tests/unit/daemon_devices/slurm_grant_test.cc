#include "daemon/devices/slurm_grant.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr std::uint64_t kGibibyte = 1u << 30;

Resources limited(const SlurmVariables& variables) {
  Resources node{.cpu = 64, .gpu = 2, .memory_bytes = 256 * kGibibyte};
  limit_to_slurm_grant(variables, node);
  return node;
}

TEST(SlurmGrant, LimitsCoresAndMemory) {
  const Resources node = limited({.node = "n1", .cpus_on_node = "8", .mem_per_node = "32768"});
  EXPECT_EQ(node.cpu, 8);
  EXPECT_EQ(node.memory_bytes, 32 * kGibibyte);
  EXPECT_EQ(node.gpu, 2);
}

TEST(SlurmGrant, MayBePerCore) {
  EXPECT_EQ(limited({.node = "n1", .cpus_on_node = "8", .mem_per_cpu = "2048"}).memory_bytes,
            16 * kGibibyte);
}

TEST(SlurmGrant, NeverRaisesWhatTheNodeHas) {
  const Resources node = limited({.node = "n1", .cpus_on_node = "128", .mem_per_node = "1048576"});
  EXPECT_EQ(node.cpu, 64);
  EXPECT_EQ(node.memory_bytes, 256 * kGibibyte);
}

TEST(SlurmGrant, CountsOnlyWhereSlurmStartedUs) {
  EXPECT_EQ(limited({.cpus_on_node = "8", .mem_per_node = "1024"}).cpu, 64);
}

TEST(SlurmGrant, ThatMakesNoSenseCountsForNothing) {
  for (const char* text : {"", "0", "-1", "8x", "8(x2)", "99999999999999999999"}) {
    const Resources node =
        limited({.node = "n1", .cpus_on_node = text, .mem_per_node = text, .mem_per_cpu = text});
    EXPECT_EQ(node.cpu, 64) << text;
    EXPECT_EQ(node.memory_bytes, 256 * kGibibyte) << text;
  }
}

}  // namespace
}  // namespace train
