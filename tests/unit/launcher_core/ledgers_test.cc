#include <gtest/gtest.h>

#include "launcher/core/checkpoint_ledger.h"
#include "launcher/core/report_ledger.h"

namespace train {
namespace {

constexpr TimePoint kStart{seconds(100)};
using Outcome = CheckpointLedger::Outcome;
using Acks = std::vector<std::pair<Rank, std::uint64_t>>;

PartOfCheckpoint part(int rank, std::uint64_t index, std::string error = "") {
  return {Rank{rank}, index, 10 * index, "dir", {}, "", std::move(error)};
}

TEST(CheckpointLedger, IsReadyWhenEveryRanksPartIsThere) {
  CheckpointLedger ledger(2);
  ledger.add(part(1, 1), kStart);
  EXPECT_FALSE(ledger.take_ready());

  ledger.add(part(0, 1), kStart);
  const auto ready = ledger.take_ready();

  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->index, 1u);
  EXPECT_EQ(ready->parts, (std::vector{part(0, 1), part(1, 1)}));
  EXPECT_EQ(ready->error, "");
  EXPECT_TRUE(ledger.committing());
}

TEST(CheckpointLedger, CommitsOneAfterTheOther) {
  CheckpointLedger ledger(1);
  ledger.add(part(0, 1), kStart);
  ledger.add(part(0, 2), kStart);
  ASSERT_TRUE(ledger.take_ready());

  EXPECT_FALSE(ledger.take_ready());
  EXPECT_TRUE(ledger.commit_finished({1, "checkpoint_000001", ""}));
  EXPECT_EQ(ledger.take_ready()->index, 2u);
}

TEST(CheckpointLedger, WaitsForAnEarlierOneThatWasOvertaken) {
  CheckpointLedger ledger(1);
  ledger.add(part(0, 2, "the disk is full"), kStart);
  EXPECT_FALSE(ledger.take_ready());

  ledger.add(part(0, 1), kStart);

  EXPECT_EQ(ledger.take_ready()->index, 1u);
}

TEST(CheckpointLedger, NamesWantOfSpaceBeforeOtherErrors) {
  CheckpointLedger ledger(3);
  ledger.add(part(0, 1, "it threw"), kStart);
  PartOfCheckpoint full = part(1, 1, "the disk is full");
  full.no_space = true;
  ledger.add(full, kStart);
  full.rank = Rank{2};
  ledger.add(full, kStart);

  const auto ready = ledger.take_ready();

  EXPECT_EQ(ready->error, "rank 1: the disk is full");
  EXPECT_TRUE(ready->no_space);
}

TEST(CheckpointLedger, GivesUpACheckpointWithABadPart) {
  CheckpointLedger ledger(2);
  ledger.add(part(0, 1), kStart);
  ledger.add(part(1, 1, "the disk is full"), kStart);

  EXPECT_EQ(ledger.take_ready()->error, "rank 1: the disk is full");
  EXPECT_FALSE(ledger.committing());
  EXPECT_EQ(ledger.settled(), 1u);
  EXPECT_EQ(ledger.add(part(0, 1), kStart), (Outcome{1, "", "rank 1: the disk is full"}));
}

TEST(CheckpointLedger, AnswersAPartThatIsSentAgainAfterItsCommit) {
  CheckpointLedger ledger(1);
  ledger.add(part(0, 1), kStart);
  ledger.take_ready();
  EXPECT_EQ(ledger.add(part(0, 1), kStart), std::nullopt);  // everybody hears of it soon

  ledger.commit_finished({1, "checkpoint_000001", ""});

  EXPECT_EQ(ledger.add(part(0, 1), kStart), (Outcome{1, "checkpoint_000001", ""}));
}

TEST(CheckpointLedger, ASecondEndOfACommitChangesNothing) {
  CheckpointLedger ledger(1);
  ledger.add(part(0, 1), kStart);
  ledger.take_ready();
  ledger.commit_finished({1, "checkpoint_000001", ""});

  EXPECT_FALSE(ledger.commit_finished({1, "another", ""}));
  EXPECT_EQ(ledger.add(part(0, 1), kStart), (Outcome{1, "checkpoint_000001", ""}));
}

TEST(CheckpointLedger, NamesTheMissingRanksOnceAfterAMinute) {
  CheckpointLedger ledger(3);
  ledger.add(part(1, 1), kStart);

  EXPECT_EQ(ledger.next_deadline(), kStart + seconds(60));
  EXPECT_EQ(ledger.overdue(kStart + seconds(60)),
            std::vector<std::string>{"checkpoint 1 of this attempt waits for the parts of ranks 0, "
                                     "2 for 1 min 0 s; every rank must report as many "
                                     "checkpoints as the others"});
  EXPECT_EQ(ledger.overdue(kStart + seconds(70)), std::vector<std::string>{});
  EXPECT_EQ(ledger.next_deadline(), std::nullopt);
}

TEST(ReportLedger, CountsWhatItKnowsAlready) {
  ReportLedger ledger;

  EXPECT_EQ(ledger.accept(Rank{0}, 1, 3).value(), 0u);
  EXPECT_EQ(ledger.accept(Rank{0}, 1, 3).value(), 3u);
  EXPECT_EQ(ledger.accept(Rank{0}, 3, 4).value(), 1u);
  EXPECT_EQ(ledger.last(Rank{0}), 6u);
  EXPECT_EQ(ledger.last(Rank{1}), 0u);
}

TEST(ReportLedger, NamesAGap) {
  ReportLedger ledger;
  ASSERT_TRUE(ledger.accept(Rank{2}, 1, 2));

  EXPECT_EQ(ledger.accept(Rank{2}, 5, 1).error(),
            (Error{Errc::Protocol, "reports 3 to 4 of rank 2 are missing"}));
  EXPECT_EQ(ledger.last(Rank{2}), 2u);
}

TEST(ReportLedger, AcknowledgesOnceWhatIsOnDisk) {
  ReportLedger ledger;
  ASSERT_TRUE(ledger.accept(Rank{0}, 1, 3));
  ASSERT_TRUE(ledger.accept(Rank{1}, 1, 1));

  EXPECT_EQ(ledger.synced(), (Acks{{Rank{0}, 3}, {Rank{1}, 1}}));
  EXPECT_EQ(ledger.synced(), Acks{});
}

TEST(ReportLedger, AcknowledgesAgainWhatIsSentAgain) {
  ReportLedger ledger;
  ASSERT_TRUE(ledger.accept(Rank{0}, 1, 3));
  ledger.synced();
  ASSERT_TRUE(ledger.accept(Rank{0}, 2, 1));

  EXPECT_EQ(ledger.synced(), (Acks{{Rank{0}, 3}}));
}

TEST(ReportLedger, GoesOnFromWhatTheLogHolds) {
  ReportLedger ledger;
  ledger.restore(Rank{0}, 10);

  EXPECT_EQ(ledger.synced(), Acks{});
  EXPECT_EQ(ledger.accept(Rank{0}, 9, 4).value(), 2u);
  EXPECT_EQ(ledger.synced(), (Acks{{Rank{0}, 12}}));
}

}  // namespace
}  // namespace train
