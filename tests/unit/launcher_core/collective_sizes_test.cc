// Each rank gets all ranks' parts of a collective call in one frame. If they do not fit, all ranks
// get an error with the call's name.
#include <gtest/gtest.h>

#include "launcher/core/collective_tracker.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr TimePoint kStart{seconds(100)};
constexpr std::size_t kPartBytes = 64u << 10;  // the SDK's limit per rank
constexpr int kFitting = kCollectiveResultBytesMax / kPartBytes;

TEST(CollectiveSizes, MoreThanFitsIsAnErrorThatNamesTheCall) {
  CollectiveTracker board(1000);
  const std::string part(kPartBytes, 'x'),
      error =
          "'reduce': 3145729 bytes from 49 ranks so far; all ranks together may send 3145728 in "
          "a collective call (for larger data use a checkpoint or the process group)";
  for (int rank = 0; rank < kFitting; ++rank)
    ASSERT_EQ(board.join(Rank{rank}, 7, "reduce", part, kStart), std::nullopt) << rank;

  EXPECT_EQ(board.join(Rank{kFitting}, 7, "reduce", "y", kStart),
            (CollectiveRelease{7, {}, error}));
  EXPECT_EQ(board.join(Rank{kFitting + 1}, 7, "reduce", part, kStart),
            (CollectiveRelease{7, {}, error, Rank{kFitting + 1}}));
  EXPECT_EQ(board.next_deadline(), std::nullopt) << "nobody is waited for any more";
}

TEST(CollectiveSizes, AShardThatComesAgainTakesNoMoreSpace) {
  CollectiveTracker board(kFitting);
  const std::string part(kPartBytes, 'x');
  for (int rank = 0; rank + 1 < kFitting; ++rank) {
    board.join(Rank{rank}, 7, "reduce", part, kStart);
    ASSERT_EQ(board.join(Rank{rank}, 7, "reduce", part, kStart), std::nullopt) << rank;
  }

  EXPECT_EQ(board.join(Rank{kFitting - 1}, 7, "reduce", part, kStart),
            (CollectiveRelease{7, std::vector<std::string>(kFitting, part), ""}));
}

TEST(CollectiveSizes, WhatFitsFitsIntoOneFrameHoweverManyRanksThereAre) {
  for (const int ranks : {1, kFitting, 80'000}) {
    CollectiveTracker board(ranks);
    std::optional<CollectiveRelease> release;
    for (int rank = 0; rank < ranks; ++rank)
      release = board.join(Rank{rank}, 7, "reduce",
                           std::string(kCollectiveResultBytesMax / ranks, 'x'), kStart);

    ASSERT_TRUE(release && release->error.empty()) << ranks;
    const Frame frame = encode(CollectiveResult{7, *release->parts, ""}, Attempt{0});
    EXPECT_LE(frame.payload.size(), kFramePayloadBytesMax) << ranks;
  }
}

}  // namespace
}  // namespace train
