#include "lib/data/plan/row_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace train::data {
namespace {

using testing::ElementsAre;
using Rows = std::vector<std::int64_t>;  // ids: a million times the unit, plus the row

Rows sequence(const UnitLayout& layout, const OrderSpec& spec, std::uint64_t epoch,
              std::int64_t first, std::int64_t count) {
  std::vector<RowRange> ranges;
  RowOrder(layout, spec, epoch).append(first, count, ranges);
  Rows rows;
  for (const RowRange& range : ranges) {
    for (std::int64_t row = range.first; row < range.first + range.count; ++row)
      rows.push_back(range.unit * 1000000 + row);
  }
  return rows;
}

Rows whole_sequence(const UnitLayout& layout, const OrderSpec& spec, std::uint64_t epoch = 0) {
  const auto total =
      std::accumulate(layout.unit_rows.begin(), layout.unit_rows.end(), std::int64_t{0});
  return sequence(layout, spec, epoch, 0, total);
}

const UnitLayout kTwenty{.unit_rows = Rows(20, 500), .file_units = {4, 1, 5, 1, 2, 1, 1, 1, 4}};

// One version resumes a checkpoint of another one, so these orders may never change.
TEST(RowOrder, StaysAsItIsForEver) {
  const auto first_ten = [](const OrderSpec& spec) { return sequence(kTwenty, spec, 1, 0, 10); };

  EXPECT_THAT(first_ten({.shuffle = Shuffle::Window, .seed = 42}),
              ElementsAre(2000210, 2000492, 2000365, 2000178, 2000142, 2000488, 2000028, 2000174,
                          2000129, 2000412));
  EXPECT_THAT(
      sequence(kTwenty, {.shuffle = Shuffle::Window, .seed = 42, .block_rows = 4}, 1, 0, 9),
      ElementsAre(2000000, 2000004, 2000001, 2000003, 2000002, 2000005, 2000007, 2000006, 2000008));
  EXPECT_THAT(first_ten({.shuffle = Shuffle::Rows, .seed = 42}),
              ElementsAre(5000201, 6000049, 14000490, 14000412, 7000403, 8000156, 2000286, 10000151,
                          13000312, 9000007));
  EXPECT_THAT(sequence(kTwenty, {.shuffle = Shuffle::Files, .seed = 42}, 1, 499, 2),
              ElementsAre(5000499, 6000000));
  EXPECT_EQ(whole_sequence({{5, 3}}, {.shuffle = Shuffle::Rows, .seed = 42}, 1),
            (Rows{2, 1, 4, 1000002, 0, 3, 1000000, 1000001}));
}

TEST(RowOrder, MixesTheRowsOfABlockAndNoOthers) {
  const Rows rows =
      whole_sequence({{10, 7}}, {.shuffle = Shuffle::Window, .seed = 3, .block_rows = 4});

  // The blocks of a unit follow each other as in the file: a short one, then of 4, and the rest.
  const RowOrder order({{10, 7}}, {.shuffle = Shuffle::Window, .seed = 3, .block_rows = 4}, 0);
  const std::size_t second = rows.front() >= 1000000 ? 7 : 0;
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(order.block_of(0, rows[second + static_cast<std::size_t>(i)]).number,
              order.block_of(0, i).number);
  EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::set<std::int64_t>(rows.begin(), rows.end()).size(), 17U);
}

TEST(RowOrder, CutsUnitsIntoBlocksOfWhichTheFirstHasARandomSize) {
  const std::vector<std::int64_t> units(200, 1000);
  const RowOrder shuffled({units}, {.shuffle = Shuffle::Window, .block_rows = 64}, 5);
  std::set<std::int64_t> first_sizes;
  for (std::int64_t unit = 0; unit < 200; ++unit) {
    first_sizes.insert(shuffled.block_of(unit, 0).rows);
    std::int64_t row = 0;
    for (std::int64_t number = 0; row < 1000; ++number) {
      const Block block = shuffled.block_of(unit, row);
      ASSERT_EQ(block.number, number);
      ASSERT_EQ(block.first, row);
      ASSERT_LE(block.rows, 64);
      ASSERT_EQ(shuffled.block_of(unit, row + block.rows - 1).number, number);
      row += block.rows;
    }
    ASSERT_EQ(row, 1000);
  }
  EXPECT_GT(first_sizes.size(), 50U);
  EXPECT_EQ(RowOrder({units}, {.block_rows = 64}, 5).block_of(3, 0).rows, 64);
  EXPECT_EQ(RowOrder({units}, {.shuffle = Shuffle::Window}, 5).block_of(3, 999).rows, 1000);
}

TEST(RowOrder, KeepsTheRowsOfAFileTogether) {
  const UnitLayout layout{.unit_rows = {2, 1, 3, 2}, .file_units = {1, 2, 1}};
  std::set<Rows> orders;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const Rows rows = whole_sequence(layout, {.shuffle = Shuffle::Files, .seed = 1}, epoch);
    orders.insert(rows);
    const auto second_unit = std::find(rows.begin(), rows.end(), 1000000);
    ASSERT_EQ(Rows(second_unit, second_unit + 4), (Rows{1000000, 2000000, 2000001, 2000002}));
  }
  EXPECT_EQ(orders.size(), 6U);
}

TEST(RowOrder, IsAnotherOneInEachEpochAndForEachSeed) {
  for (const Shuffle shuffle : {Shuffle::Window, Shuffle::Files, Shuffle::Rows}) {
    const auto order = [&](std::uint64_t seed, std::uint64_t epoch) {
      return whole_sequence(kTwenty, {.shuffle = shuffle, .seed = seed, .block_rows = 40}, epoch);
    };
    EXPECT_EQ(order(1, 1), order(1, 1));
    EXPECT_NE(order(1, 1), order(1, 2)) << to_string(shuffle);
    EXPECT_NE(order(1, 1), order(2, 1)) << to_string(shuffle);
  }
}

TEST(RowOrder, OfVersionOneIsStillKnown) {
  // As version 1 wrote them: 8 lanes of whole units, or one permutation of up to 8 units.
  EXPECT_EQ(order_of_version_1(Rows(20, 500), true, 42),
            (OrderSpec{.shuffle = Shuffle::Window, .seed = 42, .lanes = 8}));
  EXPECT_EQ(order_of_version_1({5, 3}, true, 42),
            (OrderSpec{.shuffle = Shuffle::Rows, .seed = 42}));
  EXPECT_EQ(order_of_version_1({5, 3}, false, 42), OrderSpec{});
  EXPECT_EQ(digest_of_version_1({10, 10}, false, 5), "ea7c8b14443d6939");
  EXPECT_EQ(digest_of_version_1({10, 10}, true, 5), "1ba3efdb5cc94d30");
}

TEST(DigestOf, DiffersWithUnitsFilesAndSizes) {
  const UnitLayout plain{.unit_rows = {10, 10}, .file_units = {1, 1}, .file_bytes = {7, 8}};
  EXPECT_EQ(digest_of(plain), digest_of(UnitLayout(plain)));
  UnitLayout units = plain, files = plain, bytes = plain;
  units.unit_rows = {10, 10, 0};
  files.file_units = {2};
  bytes.file_bytes = {8, 7};
  std::set<std::string> digests{digest_of(plain)};
  for (const UnitLayout& other : {units, files, bytes, UnitLayout{}})
    EXPECT_TRUE(digests.insert(digest_of(other)).second);
}

}  // namespace
}  // namespace train::data
