#include "launcher/cluster/checkpoints/replica_copies.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Names = std::vector<std::string>;

TEST(ReplicaNodes, AreTheOwnerAndTheNextOnesAround) {
  const Names group{"a", "b", "c", "d"};
  EXPECT_EQ(replica_nodes(group, "b", 2), (Names{"b", "c"}));
  EXPECT_EQ(replica_nodes(group, "d", 3), (Names{"d", "a", "b"}));
  EXPECT_EQ(replica_nodes(group, "a", 1), (Names{"a"}));
}

TEST(ReplicaNodes, AreAllThereAreWhereMoreAreWanted) {
  EXPECT_EQ(replica_nodes({"a", "b"}, "b", 5), (Names{"b", "a"}));
  EXPECT_EQ(replica_nodes({"a"}, "a", 2), (Names{"a"}));
}

// Each node keeps equally many shards.
TEST(ReplicaNodes, ShareTheBytesEqually) {
  const Names group{"a", "b", "c", "d", "e"};
  std::map<std::string, int> shards;
  for (const std::string& owner : group)
    for (const std::string& node : replica_nodes(group, owner, 3)) ++shards[node];
  for (const std::string& node : group) EXPECT_EQ(shards[node], 3) << node;
}

}  // namespace
}  // namespace train
