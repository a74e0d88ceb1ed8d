#include "launcher/core/collective_tracker.h"

#include <gtest/gtest.h>

#include "lib/model/backend_profile.h"

namespace train {
namespace {

constexpr TimePoint kStart{seconds(100)};
using Parts = std::vector<std::string>;
using Releases = std::vector<CollectiveRelease>;
using Texts = std::vector<std::string>;

TEST(CollectiveTracker, ReleasesWhenTheLastRankHasJoined) {
  CollectiveTracker board(2);

  EXPECT_EQ(board.join(Rank{1}, 1, "reduce", "b", kStart), std::nullopt);
  EXPECT_EQ(board.join(Rank{0}, 1, "reduce", "a", kStart),
            (CollectiveRelease{1, Parts{"a", "b"}, ""}));
}

TEST(CollectiveTracker, AnswersARankThatAsksAgainAfterTheCallIsOver) {
  CollectiveTracker board(2);
  board.join(Rank{0}, 1, "reduce", "a", kStart);
  board.join(Rank{1}, 1, "reduce", "b", kStart);

  EXPECT_EQ(board.join(Rank{1}, 1, "reduce", "b", kStart),
            (CollectiveRelease{1, Parts{"a", "b"}, "", Rank{1}}));
}

TEST(CollectiveTracker, AShardThatComesTwiceCountsOnce) {
  CollectiveTracker board(2);
  board.join(Rank{0}, 1, "barrier", "", kStart);

  EXPECT_EQ(board.join(Rank{0}, 1, "barrier", "", kStart), std::nullopt);
}

TEST(CollectiveTracker, KeepsTheNewestAnswersOnly) {
  CollectiveTracker board(1);
  for (std::uint64_t sequence = 1; sequence <= kAnswersKept + 1; ++sequence)
    board.join(Rank{0}, sequence, "barrier", "", kStart);

  EXPECT_EQ(board.join(Rank{0}, 2, "barrier", "", kStart),
            (CollectiveRelease{2, Parts{""}, "", Rank{0}}));
  EXPECT_EQ(board.join(Rank{0}, 1, "barrier", "", kStart),
            (CollectiveRelease{1, {}, "call 1 ('barrier') was over long ago", Rank{0}}));
}

TEST(CollectiveTracker, RanksInDifferentCallsAreToldSo) {
  CollectiveTracker board(3);
  const std::string error =
      "ranks disagree at their collective call 4: rank 0 is in 'barrier', rank 2 in 'reduce'; all "
      "ranks must make the same calls in the same "
      "order";
  board.join(Rank{0}, 4, "barrier", "", kStart);

  EXPECT_EQ(board.join(Rank{2}, 4, "reduce", "", kStart), (CollectiveRelease{4, {}, error}));
  EXPECT_EQ(board.join(Rank{1}, 4, "barrier", "", kStart),
            (CollectiveRelease{4, {}, error, Rank{1}}));
}

TEST(CollectiveTracker, ARankThatEndedFailsTheCallsThatWaitForIt) {
  CollectiveTracker board(2);
  board.join(Rank{0}, 1, "barrier", "", kStart);

  EXPECT_EQ(board.rank_ended(Rank{1}),
            (Releases{{1, {}, "'barrier' cannot complete: rank 1 has ended without calling it"}}));
  EXPECT_EQ(board.join(Rank{0}, 2, "reduce", "", kStart),
            (CollectiveRelease{2, {}, "'reduce' cannot complete: rank 1 has already ended"}));
}

TEST(CollectiveTracker, ARankThatEndedAfterItJoinedIsNotMissed) {
  CollectiveTracker board(2);
  board.join(Rank{1}, 1, "barrier", "b", kStart);

  EXPECT_EQ(board.rank_ended(Rank{1}), Releases{});
  EXPECT_EQ(board.join(Rank{0}, 1, "barrier", "a", kStart),
            (CollectiveRelease{1, Parts{"a", "b"}, ""}));
}

TEST(CollectiveTracker, NamesTheMissingRanksOnceAfterAMinute) {
  CollectiveTracker board(4);
  board.join(Rank{2}, 7, "barrier", "", kStart);

  EXPECT_EQ(board.next_deadline(), kStart + seconds(60));
  EXPECT_EQ(board.overdue(kStart + seconds(59)), Texts{});
  EXPECT_EQ(board.overdue(kStart + seconds(60)),
            Texts{"barrier (call 7): waiting for ranks 0, 1, 3 for 1 min 0 s"});
  EXPECT_EQ(board.overdue(kStart + seconds(61)), Texts{});
  EXPECT_EQ(board.next_deadline(), std::nullopt);
}

// Supervisors number theirs above 2^63.
TEST(CollectiveTracker, CallsOfBackendsHaveNumbersThatPeopleCanRead) {
  CollectiveTracker board(2);
  board.join(Rank{1}, kBackendCollectives + 3, "MPI barrier", "", kStart);

  EXPECT_EQ(board.overdue(kStart + seconds(60)),
            Texts{"MPI barrier (call 3): waiting for rank 0 for 1 min 0 s"});
}

TEST(ListRanks, ShortensLongLists) {
  EXPECT_EQ(list_ranks({Rank{3}}), "rank 3");
  EXPECT_EQ(list_ranks({Rank{3}, Rank{7}}), "ranks 3, 7");
  std::vector<Rank> many;
  for (int i = 0; i < 8; ++i) many.push_back(Rank{i});
  EXPECT_EQ(list_ranks(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7");
  for (int i = 8; i < 12; ++i) many.push_back(Rank{i});
  EXPECT_EQ(list_ranks(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7, … (12 in all)");
}

}  // namespace
}  // namespace train
