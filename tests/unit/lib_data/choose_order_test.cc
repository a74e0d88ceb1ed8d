#include "lib/data/plan/choose_order.h"

#include <gtest/gtest.h>

#include <limits>

namespace train::data {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// A million rows of 1 KiB.
const DatasetSize kLarge{.rows = 1 << 20, .decoded_bytes = 1024 * kMiB};

OrderSpec order_of(const OrderWish& wish, const DatasetSize& size = kLarge, int workers = 1,
                   std::optional<std::int64_t> lanes_before = std::nullopt) {
  const auto order = choose_order(wish, size, workers, lanes_before);
  EXPECT_TRUE(order.has_value()) << order.error().describe();
  return *order;
}

TEST(ChooseOrder, MixesAWindowOfBlocks) {
  EXPECT_EQ(order_of({.shuffle = true, .seed = 5}),
            (OrderSpec{.shuffle = Shuffle::Window, .seed = 5, .lanes = 16, .block_rows = 2048}));
  EXPECT_EQ(order_of({.shuffle = true, .window_bytes = 64 * kMiB, .lanes = 64}),
            (OrderSpec{.shuffle = Shuffle::Window, .lanes = 64, .block_rows = 1024}));
}

TEST(ChooseOrder, MixesAllRowsOfWhatFitsIntoTheWindow) {
  const DatasetSize small{.rows = 1000, .decoded_bytes = 32 * kMiB};

  EXPECT_EQ(order_of({.shuffle = true}, small), (OrderSpec{.shuffle = Shuffle::Rows}));
  EXPECT_EQ(order_of({.shuffle = true, .window_bytes = 32 * kMiB - 1}, small).shuffle,
            Shuffle::Window);
}

TEST(ChooseOrder, ReadsInTheFilesOrderAloneAndFromLanesTogether) {
  EXPECT_EQ(order_of({}), (OrderSpec{.block_rows = 2048}));
  EXPECT_EQ(order_of({}, kLarge, 2).lanes, 16);
  EXPECT_EQ(order_of({.preserve_order = true}, kLarge, 2).lanes, 1);
  EXPECT_EQ(order_of({.shuffle = true, .mode = Shuffle::Files}, kLarge, 2),
            (OrderSpec{.shuffle = Shuffle::Files, .lanes = 16, .block_rows = 2048}));
}

TEST(ChooseOrder, GivesEachOfManyWorkersALane) {
  for (const auto& [workers, lanes] : {std::pair{16, 16}, std::pair{17, 32}, std::pair{1000, 1008}})
    EXPECT_EQ(order_of({.shuffle = true}, kLarge, workers).lanes, lanes);
  EXPECT_EQ(order_of({.shuffle = true}, kLarge, std::numeric_limits<int>::max() - 16).lanes,
            kLanesMax);
}

TEST(ChooseOrder, KeepsTheLanesThatTheRunBeganWith) {
  EXPECT_EQ(order_of({.shuffle = true}, kLarge, 40, 16).lanes, 16);
  EXPECT_EQ(order_of({}, kLarge, 1, 16).lanes, 16);
  EXPECT_EQ(order_of({.shuffle = true, .lanes = 32}, kLarge, 40, 16).lanes, 32)
      << "unless the spec says otherwise";
}

TEST(ChooseOrder, ReadsRowsOneByOneWhereTheFormatCan) {
  DatasetSize by_row = kLarge;
  by_row.reads_rows = true;

  EXPECT_EQ(order_of({.shuffle = true, .mode = Shuffle::Rows}, by_row),
            (OrderSpec{.shuffle = Shuffle::Rows, .block_rows = 1}));
  EXPECT_EQ(choose_order({.shuffle = true, .mode = Shuffle::Rows}, kLarge, 1, std::nullopt)
                .error()
                .describe(),
            "its rows cannot be shuffled globally: they have about 1024 MiB, which is more than "
            "the window of 32 MiB, and rows of this format cannot be read one by one (use shuffle "
            "mode `window` or `files`, or a larger `window`)");
}

TEST(ChooseOrder, HasBlocksOfAtLeastARow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(order_of({}, {.rows = 3, .decoded_bytes = kMost}).block_rows, 1);
  EXPECT_EQ(order_of({}, {.rows = kMost, .decoded_bytes = 1}).block_rows, kMost);
  EXPECT_EQ(order_of({.window_bytes = 1, .lanes = kLanesMax}).block_rows, 1);
}

}  // namespace
}  // namespace train::data
