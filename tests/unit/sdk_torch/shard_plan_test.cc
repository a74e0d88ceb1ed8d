#include "sdk/torch/shard_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace train::sdk {
namespace {

TEST(ShardPlan, AnIntersectionIsWhatBothHold) {
  EXPECT_EQ(intersection({{0, 2}, {4, 4}}, {{2, 0}, {4, 3}}), (Box{{2, 2}, {2, 1}}));
  EXPECT_EQ(intersection({{0}, {4}}, {{4}, {4}}), std::nullopt);
  EXPECT_EQ(intersection({{}, {}}, {{}, {}}), (Box{{}, {}}));  // a scalar
}

TEST(ShardPlan, ABoxFitsAShape) {
  EXPECT_TRUE(fits({{2, 0}, {2, 3}}, {4, 3}));
  EXPECT_TRUE(fits({{4, 0}, {0, 3}}, {4, 3}));
  EXPECT_FALSE(fits({{3, 0}, {2, 3}}, {4, 3}));
  EXPECT_FALSE(fits({{-1, 0}, {2, 3}}, {4, 3}));
  EXPECT_FALSE(fits({{0}, {4}}, {4, 3}));
  EXPECT_FALSE(fits({{INT64_MAX, 0}, {2, 3}}, {4, 3}));
}

TEST(ShardPlan, TheLargestTensorsAreDealtOutFirst) {
  EXPECT_EQ(deal_out({10, 70, 20, 50}, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(deal_out({10, 70}, 1), (std::vector<int>{0, 0}));
  EXPECT_EQ(deal_out({}, 3), std::vector<int>{});
}

TEST(ShardPlan, HalvesOfTwoPiecesMakeAWhole) {
  const ReadPlan plan = plan_read({{2}, {4}}, {{{0}, {4}}, {{4}, {4}}});

  EXPECT_EQ(plan.copies, (std::vector<Copy>{{0, {{2}, {2}}}, {1, {{4}, {2}}}}));
  EXPECT_TRUE(plan.missing.empty());
}

TEST(ShardPlan, WhatNoPieceHoldsIsNamed) {
  const ReadPlan plan = plan_read({{0, 0}, {4, 4}}, {{{0, 0}, {4, 3}}});

  ASSERT_EQ(plan.missing.size(), 1u);
  EXPECT_EQ(to_text(plan.missing[0]), "[0:4, 3:4]");
}

TEST(ShardPlan, CopiesOfOnePieceAreReadOnce) {
  const ReadPlan plan = plan_read({{0}, {4}}, {{{0}, {4}}, {{0}, {4}}});

  EXPECT_EQ(plan.copies, (std::vector<Copy>{{0, {{0}, {4}}}}));
}

TEST(ShardPlan, AnEmptyPieceNeedsNothing) {
  const ReadPlan plan = plan_read({{4, 0}, {0, 3}}, {});

  EXPECT_TRUE(plan.copies.empty());
  EXPECT_TRUE(plan.missing.empty());
}

using Cell = std::pair<std::int64_t, std::int64_t>;
void add_cells(const Box& box, std::multiset<Cell>& cells) {
  for (std::int64_t i = 0; i < box.size[0]; ++i) {
    for (std::int64_t j = 0; j < box.size[1]; ++j)
      cells.emplace(box.offset[0] + i, box.offset[1] + j);
  }
}

TEST(ShardPlan, EveryElementIsReadOnceOrMissing) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    const auto random_box = [&] {
      Box box{{below(6), below(6)}, {}};
      box.size = {1 + below(6), 1 + below(6)};
      return box;
    };
    const Box wanted = random_box();
    std::vector<Box> pieces(static_cast<std::size_t>(below(5)));
    for (Box& piece : pieces) piece = random_box();

    const ReadPlan plan = plan_read(wanted, pieces);

    std::multiset<Cell> expected, found, held;
    add_cells(wanted, expected);
    for (const Box& piece : pieces) add_cells(piece, held);
    for (const Copy& copy : plan.copies) {
      ASSERT_EQ(intersection(copy.box, pieces[copy.piece]), copy.box);
      add_cells(copy.box, found);
    }
    std::multiset<Cell> missing;
    for (const Box& box : plan.missing) add_cells(box, missing);
    for (const Cell& cell : missing) ASSERT_EQ(held.count(cell), 0u);
    found.insert(missing.begin(), missing.end());
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace train::sdk
