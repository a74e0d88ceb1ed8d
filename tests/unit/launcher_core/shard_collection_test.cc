#include "launcher/core/shard_collection.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Next = ShardCollection::Next;
using Shard = ShardCollection::Shard;

constexpr Attempt kNow{3}, kBefore{2}, kLater{4};
constexpr NodeId kA{0}, kB{1};

/// Return the collection for two ranks, one on each of two nodes.
ShardCollection two_nodes() {
  ShardCollection shards;
  shards.attempt_begins(kNow,
                        {.world_size = 2,
                         .nodes = {{kA, NodeRank{0}, Rank{0}, 1}, {kB, NodeRank{1}, Rank{1}, 1}},
                         .reason = ""});
  return shards;
}
Shard shard(int rank, std::uint64_t checkpoint_seq = 1, Attempt attempt = kNow) {
  return {attempt, checkpoint_seq, Rank{rank}};
}

TEST(ShardCollection, WhatIsInStorageIsToldAtOnceAndWhatIsOnANodeIsBroughtFirst) {
  ShardCollection shards = two_nodes();

  EXPECT_EQ(shards.written(shard(0), kA, false), Next::Tell);
  EXPECT_EQ(shards.written(shard(1), kB, true), Next::Bring);
  EXPECT_EQ(shards.written(shard(1), kB, true), Next::Wait);

  EXPECT_FALSE(shards.brought(shard(1), kB, true)) << "no end was held back";
  EXPECT_EQ(shards.written(shard(1), kB, true), Next::Tell) << "it is here";
}

TEST(ShardCollection, OneThatCouldNotBeBroughtIsTriedAgain) {
  ShardCollection shards = two_nodes();
  ASSERT_EQ(shards.written(shard(1), kB, true), Next::Bring);

  shards.brought(shard(1), kB, false);

  EXPECT_EQ(shards.written(shard(1), kB, true), Next::Bring);
}

TEST(ShardCollection, OfAResolvedCheckpointNothingIsBrought) {
  ShardCollection shards = two_nodes();
  shards.resolved(kNow, 2);
  shards.resolved(kNow, 1);

  EXPECT_EQ(shards.written(shard(0, 2), kA, true), Next::Tell);
  EXPECT_EQ(shards.written(shard(0, 3), kA, true), Next::Bring);
}

TEST(ShardCollection, TheEndOfAGroupIsHeldBackUntilItsShardsAreHere) {
  ShardCollection shards = two_nodes();
  shards.written(shard(0, 1), kA, true);
  shards.written(shard(0, 2), kA, true);
  shards.written(shard(1, 1), kB, true);

  EXPECT_TRUE(shards.group_gone({kNow, kA}));

  EXPECT_FALSE(shards.brought(shard(0, 1), kA, true)) << "another one is on its way";
  EXPECT_FALSE(shards.brought(shard(1, 1), kB, true)) << "of a node whose group goes on";
  EXPECT_TRUE(shards.brought(shard(0, 2), kA, false));
  EXPECT_FALSE(shards.group_gone({kNow, kB})) << "nothing comes from there";
}

TEST(ShardCollection, OfALostNodeNoEndIsHeldBack) {
  ShardCollection shards = two_nodes();
  shards.written(shard(0), kA, true);
  ASSERT_TRUE(shards.group_gone({kNow, kA}));

  shards.lost({kNow, kA});

  EXPECT_FALSE(shards.brought(shard(0), kA, false));
}

TEST(ShardCollection, ACheckpointThatLacksAShardIsUselessOnceNoNodeBringsMore) {
  ShardCollection shards = two_nodes();
  shards.written(shard(0, 1), kA, true);
  shards.written(shard(1, 1), kB, true);
  shards.written(shard(0, 2), kA, true);
  shards.group_gone({kNow, kA});
  EXPECT_FALSE(shards.is_useless(kNow, 2)) << "the other node may still bring its shard";

  shards.lost({kNow, kB});

  EXPECT_FALSE(shards.is_useless(kNow, 1)) << "it is complete";
  EXPECT_TRUE(shards.is_useless(kNow, 2));
  EXPECT_TRUE(shards.is_useless(kNow, 3)) << "one before it will not be committed";
}

// Some ranks had heard that it was given up, and did not hand over their shards again.
TEST(ShardCollection, ACheckpointThatAnEarlierLauncherResolvedMakesNoLaterOneUseless) {
  ShardCollection shards = two_nodes();
  shards.written(shard(0, 1), kA, true);
  shards.resolved(kNow, 1);
  for (const int rank : {0, 1}) shards.written(shard(rank, 2), rank == 0 ? kA : kB, true);
  shards.group_gone({kNow, kA});
  shards.group_gone({kNow, kB});

  EXPECT_FALSE(shards.is_useless(kNow, 2));
}

TEST(ShardCollection, OfAnAttemptThatIsNotKnownNothingIsUseless) {
  ShardCollection shards;
  shards.written(shard(0, 1), kA, true);
  shards.group_gone({kNow, kA});

  EXPECT_FALSE(shards.is_useless(kNow, 1));
  EXPECT_FALSE(shards.is_useless(kLater, 1));
}

TEST(ShardCollection, OfAnAttemptThatIsOverNothingIsWaitedFor) {
  ShardCollection shards = two_nodes();
  shards.written(shard(0), kA, true);
  shards.group_gone({kNow, kA});

  shards.attempt_ended(kNow);

  EXPECT_TRUE(shards.is_over(kNow) && shards.is_over(kBefore));
  EXPECT_FALSE(shards.is_over(kLater));
  EXPECT_TRUE(shards.is_useless(kNow, 1));
  EXPECT_FALSE(shards.brought(shard(0), kA, true));
  EXPECT_EQ(shards.written(shard(1), kB, true), Next::Tell);
  EXPECT_FALSE(shards.group_gone({kNow, kB}));
  shards.lost({kNow, kB});
  shards.resolved(kNow, 9);
  EXPECT_EQ(shards.attempts(), std::set<Attempt>{});
  EXPECT_EQ(shards.written(shard(0, 1, kLater), kA, true), Next::Bring);
  EXPECT_EQ(shards.attempts(), std::set<Attempt>{kLater});
}

}  // namespace
}  // namespace train
