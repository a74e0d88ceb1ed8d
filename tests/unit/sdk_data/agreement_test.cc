#include "sdk/data/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace train::sdk {
namespace {

using testing::ElementsAre;

PassView view_of(std::int64_t rows) {
  return {.rows = rows, .layout = "9c", .order = "none", .batch_size = 32};
}

std::string difference(const std::vector<std::string>& views) {
  const auto agreed = agree(views);
  return agreed.has_value() ? "none" : agreed.error().describe();
}

TEST(Agreement, GivesTheBatchSizesOfAllRanks) {
  PassView first = view_of(30), second = view_of(30);
  second.batch_size = 31;

  EXPECT_THAT(*agree({encode(first), encode(second), encode(second)}), ElementsAre(32, 31, 31));
}

TEST(Agreement, DividesTheRowsOfAStepByWeight) {
  PassView first = view_of(30), second = view_of(30);
  first.weight = 3;

  EXPECT_THAT(*agree({encode(first), encode(second)}), ElementsAre(48, 16));
}

TEST(Agreement, DividesTheRowsOfAStepBySpeedOnceAllAreKnown) {
  PassView first = view_of(30), second = view_of(30);
  first.weight = 3;
  first.speed = 1000;
  EXPECT_THAT(*agree({encode(first), encode(second)}), ElementsAre(48, 16));

  second.speed = 3000;
  EXPECT_THAT(*agree({encode(first), encode(second)}), ElementsAre(16, 48));
}

TEST(Agreement, NamesTheRanksThatSeeOtherRows) {
  const std::string most = encode(view_of(30)), other = encode(view_of(29));

  EXPECT_EQ(difference({most, other, most, other}),
            "the ranks differ: 29 rows on ranks 1, 3, 30 rows on ranks 0, 2 (every node must have "
            "the same files at the dataset's path)");
  EXPECT_EQ(difference({most, most, other}),
            "the ranks differ: 29 rows on rank 2, 30 rows on ranks 0, 1 (every node must have the "
            "same files at the dataset's path)");
}

TEST(Agreement, NoticesOtherFilesWithAsManyRowsAndAnotherOrder) {
  PassView files = view_of(30), order = view_of(30);
  files.layout = "a1";
  order.order = "window";

  EXPECT_EQ(difference({encode(view_of(30)), encode(files)}),
            "the ranks differ: files with digest 9c on rank 0, files with digest a1 on rank 1 "
            "(every node must have the same files at the dataset's path)");
  EXPECT_EQ(
      difference({encode(view_of(30)), encode(order)}),
      "the ranks differ: rows in the order \"none\" on rank 0, rows in the order \"window\" on "
      "rank 1 (every rank must begin from the same checkpoint, with the same spec)");
}

TEST(Agreement, NoticesAnotherEpochCursorOrOption) {
  const PassView base = view_of(10);
  PassView epoch = base, cursor = base, drop = base;
  epoch.epoch = 3;
  cursor.rows_consumed = 4;
  drop.drop_last = true;

  EXPECT_EQ(difference({encode(base), encode(epoch)}),
            "the ranks differ: epoch 0 on rank 0, epoch 3 on rank 1 (call set_epoch() with the "
            "same number on every rank, and iterate "
            "equally often)");
  EXPECT_EQ(difference({encode(base), encode(cursor)}),
            "the ranks differ: 0 rows consumed on rank 0, 4 rows consumed on rank 1 (call "
            "set_epoch() on every rank, or on none)");
  EXPECT_EQ(difference({encode(base), encode(drop)}),
            "the ranks differ: drop_last false on rank 0, drop_last true on rank 1 (give every "
            "rank the same options)");
}

TEST(Agreement, IsReachedInTheLastEpochThatThereCanBe) {
  PassView last = view_of(10);
  last.epoch = std::numeric_limits<std::uint64_t>::max();

  EXPECT_THAT(*agree({encode(last), encode(last)}), ElementsAre(32, 32));
  EXPECT_TRUE(difference({encode(last), encode(view_of(10))})
                  .starts_with("the ranks differ: epoch 0 on rank 1, epoch 18446744073709551615"));
}

}  // namespace
}  // namespace train::sdk
