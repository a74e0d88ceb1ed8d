#include "launcher/cluster/checkpoints/replica_copies.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "lib/net/scope.h"
#include "tests/unit/launcher_cluster/fakes.h"

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

// A node with a new link gets its own unanswered orders again, and no others.
TEST(ReplicaCopies, AreAskedForAgainOnTheNodeThatHasANewLink) {
  asio::io_context io;
  Names sent;
  FakeLinks links({NodeId{0}, NodeId{1}, NodeId{2}},
                  [&](NodeId node, const Frame&) { sent.push_back(links.name(node)); });
  ReplicaCopies copies(io.get_executor(), 3, links);
  copies.group(Attempt{0}, {"n0", "n1", "n2"});
  Result<Names> kept = Error{};
  ShardKept answer;
  answer.checkpoint_seq = 7;
  ShardWritten shard;
  shard.checkpoint_seq = 7;
  const auto keep = [&]() -> asio::awaitable<void> {
    auto keeping = copies.keep(Attempt{0}, "n0", shard);
    kept = co_await std::move(keeping);
  };
  Scope scope(io.get_executor());
  scope.spawn("keep", keep());
  io.poll();
  ASSERT_EQ(sent, (Names{"n1", "n2"}));

  copies.ask_again(Attempt{0}, "n1");
  EXPECT_EQ(sent, (Names{"n1", "n2", "n1"}));
  copies.answered(Attempt{0}, "n1", answer);
  copies.ask_again(Attempt{0}, "n1");
  copies.ask_again(Attempt{1}, "n2");
  EXPECT_EQ(sent.size(), 3u) << "what is answered, or of another attempt, is not asked for again";
  copies.answered(Attempt{0}, "n2", answer);
  io.restart();
  io.run();

  ASSERT_TRUE(kept) << kept.error().describe();
  EXPECT_EQ(*kept, (Names{"n0", "n1", "n2"}));
}

}  // namespace
}  // namespace train
