#include "sdk/torch/row_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace train::sdk {
namespace {

using ::testing::ElementsAre;

std::vector<std::size_t> rows_of_all(const RowOrder& order, std::uint64_t epoch) {
  std::vector<std::size_t> all;
  for (std::size_t rank = 0; rank < order.world_size; ++rank) {
    for (const std::size_t row : rows_of_rank(order, epoch, rank)) all.push_back(row);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(RowOrder, DealsRowsInTurnWithoutShuffle) {
  const RowOrder order{.rows = 7, .world_size = 3, .shuffle = false};

  EXPECT_THAT(rows_of_rank(order, 0, 0), ElementsAre(0, 3, 6));
  EXPECT_THAT(rows_of_rank(order, 0, 1), ElementsAre(1, 4, 0));
  EXPECT_THAT(rows_of_rank(order, 0, 2), ElementsAre(2, 5, 1));
}

TEST(RowOrder, DropsRowsThatDoNotDivide) {
  const RowOrder order{.rows = 7, .world_size = 3, .shuffle = false, .drop_last = true};

  EXPECT_THAT(rows_of_rank(order, 0, 0), ElementsAre(0, 3));
  EXPECT_THAT(rows_of_rank(order, 0, 1), ElementsAre(1, 4));
  EXPECT_THAT(rows_of_rank(order, 0, 2), ElementsAre(2, 5));
}

TEST(RowOrder, ShowsEachRowOnceAnEpoch) {
  const RowOrder order{.rows = 12, .world_size = 4, .seed = 5};

  for (const std::uint64_t epoch : {0, 1, 2}) {
    EXPECT_THAT(rows_of_all(order, epoch), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  }
}

TEST(RowOrder, IsAnotherOneInEachEpochAndForEachSeed) {
  const RowOrder order{.rows = 50, .seed = 5};

  EXPECT_EQ(rows_of_rank(order, 1, 0), rows_of_rank(order, 1, 0));
  EXPECT_NE(rows_of_rank(order, 0, 0), rows_of_rank(order, 1, 0));
  EXPECT_NE(rows_of_rank(order, 0, 0), rows_of_rank({.rows = 50, .seed = 6}, 0, 0));
}

TEST(RowOrder, FillsUpEvenWhereRanksOutnumberRows) {
  const RowOrder order{.rows = 2, .world_size = 5, .shuffle = false};

  EXPECT_THAT(rows_of_rank(order, 0, 4), ElementsAre(0));
  EXPECT_THAT(rows_of_rank({.rows = 0, .world_size = 5}, 0, 4), ElementsAre());
}

TEST(RowOrder, DealsOutTheRestFromTheFirstRowThatIsLeft) {
  const RowOrder order{.rows = 7, .first = 3, .world_size = 3, .shuffle = false};

  EXPECT_EQ(share_size(order), 2U);
  EXPECT_THAT(rows_of_rank(order, 0, 0), ElementsAre(3, 6));
  EXPECT_THAT(rows_of_rank(order, 0, 1), ElementsAre(4, 0));
  EXPECT_THAT(rows_of_rank(order, 0, 2), ElementsAre(5, 1));
}

TEST(RowOrder, TheRestIsTheEndOfEachRanksShare) {
  for (const bool drop_last : {false, true}) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const RowOrder whole{.rows = 13, .world_size = 3, .seed = 5, .drop_last = drop_last};
      RowOrder rest = whole;
      rest.first = 2 * whole.world_size;
      auto expected = rows_of_rank(whole, 8, rank);
      expected.erase(expected.begin(), expected.begin() + 2);

      EXPECT_EQ(rows_of_rank(rest, 8, rank), expected);
    }
  }
}

TEST(RowOrder, HasNoRestBehindItsLastRow) {
  EXPECT_EQ(share_size({.rows = 7, .first = 7, .world_size = 3}), 0U);
  EXPECT_EQ(share_size({.rows = 7, .first = 9, .world_size = 3}), 0U);
}

}  // namespace
}  // namespace train::sdk
