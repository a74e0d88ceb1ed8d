#include <gtest/gtest.h>

#include "launcher/core/checkpoint_tracker.h"
#include "launcher/core/sequence_tracker.h"

namespace train {
namespace {

constexpr TimePoint kStart{seconds(100)};
using Outcome = CheckpointTracker::Outcome;
using Acks = std::vector<std::pair<Rank, std::uint64_t>>;

StagedShard shard(int rank, std::uint64_t index, std::string error = "") {
  return {{Rank{rank}, "dir"}, index, 10 * index, "", std::move(error)};
}

TEST(CheckpointTracker, IsReadyWhenEveryRanksShardIsThere) {
  CheckpointTracker tracker(2);
  tracker.add(shard(1, 1), kStart);
  EXPECT_FALSE(tracker.take_ready());

  tracker.add(shard(0, 1), kStart);
  const auto ready = tracker.take_ready();

  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->checkpoint_seq, 1u);
  EXPECT_EQ(ready->shards, (std::vector{shard(0, 1), shard(1, 1)}));
  EXPECT_EQ(ready->error, "");
  EXPECT_TRUE(tracker.committing());
}

TEST(CheckpointTracker, CommitsOneAfterTheOther) {
  CheckpointTracker tracker(1);
  tracker.add(shard(0, 1), kStart);
  tracker.add(shard(0, 2), kStart);
  ASSERT_TRUE(tracker.take_ready());

  EXPECT_FALSE(tracker.take_ready());
  EXPECT_TRUE(tracker.commit_finished({1, "checkpoint_000001", ""}));
  EXPECT_EQ(tracker.take_ready()->checkpoint_seq, 2u);
}

TEST(CheckpointTracker, WaitsForAnEarlierOneThatWasOvertaken) {
  CheckpointTracker tracker(1);
  tracker.add(shard(0, 2, "the disk is full"), kStart);
  EXPECT_FALSE(tracker.take_ready());

  tracker.add(shard(0, 1), kStart);

  EXPECT_EQ(tracker.take_ready()->checkpoint_seq, 1u);
}

TEST(CheckpointTracker, NamesWantOfSpaceBeforeOtherErrors) {
  CheckpointTracker tracker(3);
  tracker.add(shard(0, 1, "it threw"), kStart);
  StagedShard full = shard(1, 1, "the disk is full");
  full.no_space = true;
  tracker.add(full, kStart);
  full.rank = Rank{2};
  tracker.add(full, kStart);

  const auto ready = tracker.take_ready();

  EXPECT_EQ(ready->error, "rank 1: the disk is full");
  EXPECT_TRUE(ready->no_space);
}

TEST(CheckpointTracker, GivesUpACheckpointWithABadShard) {
  CheckpointTracker tracker(2);
  tracker.add(shard(0, 1), kStart);
  tracker.add(shard(1, 1, "the disk is full"), kStart);

  EXPECT_EQ(tracker.take_ready()->error, "rank 1: the disk is full");
  EXPECT_FALSE(tracker.committing());
  EXPECT_EQ(tracker.resolved(), 1u);
  EXPECT_EQ(tracker.add(shard(0, 1), kStart), (Outcome{1, "", "rank 1: the disk is full"}));
}

TEST(CheckpointTracker, AnswersAShardThatIsSentAgainAfterItsCommit) {
  CheckpointTracker tracker(1);
  tracker.add(shard(0, 1), kStart);
  tracker.take_ready();
  EXPECT_EQ(tracker.add(shard(0, 1), kStart), std::nullopt);  // everybody will hear of it

  tracker.commit_finished({1, "checkpoint_000001", ""});

  EXPECT_EQ(tracker.add(shard(0, 1), kStart), (Outcome{1, "checkpoint_000001", ""}));
}

TEST(CheckpointTracker, ASecondEndOfACommitChangesNothing) {
  CheckpointTracker tracker(1);
  tracker.add(shard(0, 1), kStart);
  tracker.take_ready();
  tracker.commit_finished({1, "checkpoint_000001", ""});

  EXPECT_FALSE(tracker.commit_finished({1, "another", ""}));
  EXPECT_EQ(tracker.add(shard(0, 1), kStart), (Outcome{1, "checkpoint_000001", ""}));
}

TEST(CheckpointTracker, NamesTheMissingRanksOnceAfterAMinute) {
  CheckpointTracker tracker(3);
  tracker.add(shard(1, 1), kStart);

  EXPECT_EQ(tracker.next_deadline(), kStart + seconds(60));
  EXPECT_EQ(tracker.overdue(kStart + seconds(60)),
            std::vector<std::string>{
                "checkpoint 1 of this attempt lacks the shards of ranks 0, "
                "2 after 1 min 0 s; every rank must report the same number of checkpoints"});
  EXPECT_EQ(tracker.overdue(kStart + seconds(70)), std::vector<std::string>{});
  EXPECT_EQ(tracker.next_deadline(), std::nullopt);
}

TEST(SequenceTracker, CountsWhatItKnowsAlready) {
  SequenceTracker tracker;

  EXPECT_EQ(tracker.accept(Rank{0}, 1, 3)->known, 0u);
  EXPECT_EQ(tracker.accept(Rank{0}, 1, 3)->known, 3u);
  EXPECT_EQ(tracker.accept(Rank{0}, 3, 4)->known, 1u);
  EXPECT_EQ(tracker.last(Rank{0}), 6u);
  EXPECT_EQ(tracker.last(Rank{1}), 0u);
}

TEST(SequenceTracker, NamesAGap) {
  SequenceTracker tracker;
  ASSERT_TRUE(tracker.accept(Rank{2}, 1, 2));

  EXPECT_EQ(tracker.accept(Rank{2}, 5, 1).error(),
            (Error{Errc::Protocol, "reports 3 to 4 of rank 2 are missing"}));
  EXPECT_EQ(tracker.last(Rank{2}), 2u);
}

TEST(SequenceTracker, WhatIsMissingBeforeTheFirstBatchOfAnAdoptedAttemptIsLost) {
  SequenceTracker tracker;
  tracker.restore(Rank{0}, 2);
  tracker.adopt();

  const auto first = tracker.accept(Rank{0}, 5, 2);
  EXPECT_EQ(first->lost, 2u);
  EXPECT_EQ(first->known, 0u);
  EXPECT_EQ(tracker.accept(Rank{1}, 4, 1)->lost, 3u);
  tracker.written(Rank{0}, 6);
  EXPECT_EQ(tracker.synced(), (Acks{{Rank{0}, 6}}));
  EXPECT_FALSE(tracker.accept(Rank{0}, 8, 1));  // that cannot be the earlier launcher's doing
}

TEST(SequenceTracker, AcknowledgesOnceWhatIsOnDisk) {
  SequenceTracker tracker;
  ASSERT_TRUE(tracker.accept(Rank{0}, 1, 3));
  ASSERT_TRUE(tracker.accept(Rank{1}, 1, 1));
  EXPECT_EQ(tracker.synced(), Acks{});  // nothing is written

  tracker.written(Rank{0}, 3);
  tracker.written(Rank{1}, 1);

  EXPECT_EQ(tracker.synced(), (Acks{{Rank{0}, 3}, {Rank{1}, 1}}));
  EXPECT_EQ(tracker.synced(), Acks{});
}

TEST(SequenceTracker, AcknowledgesAgainWhatIsSentAgainAndIsWritten) {
  SequenceTracker tracker;
  ASSERT_TRUE(tracker.accept(Rank{0}, 1, 3));
  ASSERT_EQ(tracker.accept(Rank{0}, 1, 3)->known, 3u);
  EXPECT_EQ(tracker.synced(), Acks{});  // it still waits for the writer
  tracker.written(Rank{0}, 3);
  tracker.synced();
  ASSERT_TRUE(tracker.accept(Rank{0}, 2, 1));

  EXPECT_EQ(tracker.synced(), (Acks{{Rank{0}, 3}}));
}

TEST(SequenceTracker, GoesOnFromWhatTheLogHolds) {
  SequenceTracker tracker;
  tracker.restore(Rank{0}, 10);

  EXPECT_EQ(tracker.synced(), Acks{});
  EXPECT_EQ(tracker.accept(Rank{0}, 9, 4)->known, 2u);
  tracker.written(Rank{0}, 12);
  EXPECT_EQ(tracker.synced(), (Acks{{Rank{0}, 12}}));
}

}  // namespace
}  // namespace train
