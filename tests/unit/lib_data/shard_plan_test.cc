#include "lib/data/plan/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace train::data {

void PrintTo(const RowRange& range, std::ostream* out) {
  *out << range.unit << ":[" << range.first << "+" << range.count << "]";
}
void PrintTo(const PlannedBatch& batch, std::ostream* out) {
  *out << testing::PrintToString(batch.ranges) << " valid " << batch.valid_rows << " consumed "
       << batch.rows_consumed;
}

namespace {

using testing::ElementsAre;
using Rows = std::vector<std::int64_t>;  // ids: a million times the group, plus the row

ShardPlan plan_of(PlanInput input) {
  auto plan = ShardPlan::make(std::move(input));
  EXPECT_TRUE(plan.has_value()) << plan.error().describe();
  return *plan;
}

Rows rows_of(const std::vector<RowRange>& ranges) {
  Rows rows;
  for (const RowRange& range : ranges) {
    for (std::int64_t row = 0; row < range.count; ++row)
      rows.push_back(range.unit * 1000000 + range.first + row);
  }
  return rows;
}

/// Return the valid rows of all ranks in the steps [first, last).
Rows consumed_by_group(const PlanInput& input, std::int64_t first, std::int64_t last) {
  Rows all;
  for (int rank = 0; rank < static_cast<int>(input.batch_sizes.size()); ++rank) {
    PlanInput mine = input;
    mine.rank = rank;
    const ShardPlan plan = plan_of(mine);
    for (std::int64_t step = first; step < std::min(last, plan.batches()); ++step) {
      const PlannedBatch batch = plan.batch(step);
      const Rows rows = rows_of(batch.ranges);
      all.insert(all.end(), rows.begin(), rows.begin() + batch.valid_rows);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

Rows every_row(const std::vector<std::int64_t>& unit_rows) {
  Rows rows;
  for (std::size_t group = 0; group < unit_rows.size(); ++group) {
    for (std::int64_t row = 0; row < unit_rows[group]; ++row)
      rows.push_back(static_cast<std::int64_t>(group) * 1000000 + row);
  }
  return rows;
}

const std::vector<std::vector<std::int64_t>> kLayouts = {
    {1},
    {2},
    {3},
    {7},
    {64},
    {5, 0, 6},
    {100, 1, 33},
    {10, 10, 10, 10, 10, 10, 10, 10, 10, 10},
    {3, 14, 15, 9, 26, 5, 35, 8, 97, 9, 3, 2, 38, 4, 62, 6}};
constexpr std::int64_t kAllSteps = 1'000'000;

const std::vector<OrderSpec> kOrders = {
    {},
    {.lanes = 5},
    {.shuffle = Shuffle::Files, .seed = 7},
    {.shuffle = Shuffle::Files, .seed = 7, .lanes = 16},
    {.shuffle = Shuffle::Rows, .seed = 7},
    {.shuffle = Shuffle::Window, .seed = 7, .lanes = 8},
    {.shuffle = Shuffle::Window, .seed = 7, .lanes = 16, .block_rows = 3},
    {.shuffle = Shuffle::Window, .seed = 7, .lanes = 1, .block_rows = 10}};

/// Return the layout of files of one unit and of two units, in turn.
UnitLayout layout_of(const std::vector<std::int64_t>& unit_rows) {
  UnitLayout layout{.unit_rows = unit_rows};
  const auto units = static_cast<std::int64_t>(unit_rows.size());
  for (std::int64_t unit = 0, size = 1; unit < units; size = 3 - size) {
    layout.file_units.push_back(std::min(size, units - unit));
    unit += layout.file_units.back();
  }
  return layout;
}

TEST(ShardPlan, GivesEachOfThreeWorkersOneOfThreeRows) {
  for (int rank = 0; rank < 3; ++rank) {
    const ShardPlan plan = plan_of({.layout = {{3}}, .batch_sizes = {1, 1, 1}, .rank = rank});

    EXPECT_EQ(plan.batches(), 1);
    EXPECT_EQ(plan.batch(0),
              (PlannedBatch{.ranges = {{0, rank, 1}}, .valid_rows = 1, .rows_consumed = 3}));
  }
}

TEST(ShardPlan, ReadsTheFilesInOrderWhenItDoesNotShuffle) {
  const ShardPlan plan = plan_of({.layout = {{5, 4}}, .batch_sizes = {2, 2}, .rank = 1});

  ASSERT_EQ(plan.batches(), 3);
  EXPECT_EQ(plan.batch(0),
            (PlannedBatch{.ranges = {{0, 2, 2}}, .valid_rows = 2, .rows_consumed = 4}));
  EXPECT_EQ(plan.batch(1),
            (PlannedBatch{.ranges = {{1, 1, 2}}, .valid_rows = 2, .rows_consumed = 8}));
  EXPECT_EQ(
      plan.batch(2),
      (PlannedBatch{.ranges = {{0, 2, 1}}, .valid_rows = 0, .rows_consumed = 9, .weight = 0}));
}

TEST(ShardPlan, JoinsRowsOfSeveralGroupsInOneBatch) {
  const ShardPlan plan = plan_of({.layout = {{2, 1, 4}}, .batch_sizes = {6}});

  EXPECT_EQ(plan.batch(0),
            (PlannedBatch{
                .ranges = {{0, 0, 2}, {1, 0, 1}, {2, 0, 3}}, .valid_rows = 6, .rows_consumed = 6}));
}

TEST(ShardPlan, RepeatsRowsOfItsOwnShareWhenItRunsOut) {
  const PlanInput four_rows{.layout = {{4}}, .batch_sizes = {2, 2, 2}};
  const auto batch_of = [&](int rank) {
    PlanInput input = four_rows;
    input.rank = rank;
    return plan_of(input).batch(0);
  };

  EXPECT_EQ(
      batch_of(0),
      (PlannedBatch{.ranges = {{0, 0, 2}}, .valid_rows = 2, .rows_consumed = 4, .weight = 1.5}));
  EXPECT_EQ(
      batch_of(1),
      (PlannedBatch{
          .ranges = {{0, 2, 1}, {0, 2, 1}}, .valid_rows = 1, .rows_consumed = 4, .weight = 0.75}));
  EXPECT_EQ(
      batch_of(2),
      (PlannedBatch{
          .ranges = {{0, 3, 1}, {0, 3, 1}}, .valid_rows = 1, .rows_consumed = 4, .weight = 0.75}));
}

TEST(ShardPlan, RepeatsRowsOfItsOwnShareBehindACursorToo) {
  const ShardPlan plan =
      plan_of({.layout = {{7}}, .batch_sizes = {2, 2, 2}, .rank = 2, .rows_consumed = 3});

  EXPECT_EQ(
      plan.batch(0),
      (PlannedBatch{
          .ranges = {{0, 6, 1}, {0, 6, 1}}, .valid_rows = 1, .rows_consumed = 7, .weight = 0.75}));
}

TEST(ShardPlan, LendsTheFirstRowToARankWithoutAny) {
  const ShardPlan plan = plan_of({.layout = {{2}}, .batch_sizes = {4, 4, 4}, .rank = 2});

  EXPECT_EQ(
      plan.batch(0),
      (PlannedBatch{.ranges = {{0, 0, 1}}, .valid_rows = 0, .rows_consumed = 2, .weight = 0}));
}

TEST(ShardPlan, LeavesTheShortStepOutOnAllRanksAlike) {
  for (int rank = 0; rank < 2; ++rank) {
    const ShardPlan plan =
        plan_of({.layout = {{11}}, .batch_sizes = {2, 2}, .rank = rank, .drop_last = true});

    EXPECT_EQ(plan.batches(), 2);
    EXPECT_EQ(plan.share_rows(), 4);
  }
}

TEST(ShardPlan, HasNoBatchesWhenTheEpochIsConsumed) {
  EXPECT_EQ(plan_of({.layout = {{11}}, .batch_sizes = {4}, .rows_consumed = 11}).batches(), 0);
}

TEST(ShardPlan, RefusesACursorBeyondTheData) {
  const auto plan =
      ShardPlan::make({.layout = {{11}}, .batch_sizes = {4}, .epoch = 3, .rows_consumed = 12});

  ASSERT_TRUE(plan.has_error());
  EXPECT_EQ(plan.error().describe(),
            "12 rows of epoch 3 are consumed, but there are only 11 (the dataset differs from the "
            "checkpoint's; call set_epoch() to start an epoch over)");
}

TEST(ShardPlan, RefusesAnEmptyBatch) {
  const auto plan = ShardPlan::make({.layout = {{11}}, .batch_sizes = {4, 0}});

  ASSERT_TRUE(plan.has_error());
  EXPECT_EQ(plan.error().describe(), "batch_size is 0 on rank 1 (give at least 1)");
  EXPECT_EQ(ShardPlan::make({.layout = {{11}}, .batch_sizes = {0, -1}}).error().describe(),
            "batch_size is 0 on rank 0 (give at least 1)");
}

TEST(ShardPlan, RefusesABatchThatIsTooLarge) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto refusal = [](std::vector<std::int64_t> batch_sizes) {
    const auto plan = ShardPlan::make({.layout = {{11}}, .batch_sizes = std::move(batch_sizes)});
    return plan.has_error() ? plan.error().describe() : "none";
  };

  EXPECT_EQ(refusal({kHuge}),
            "batch_size is 9223372036854775807 on rank 0 (give at most 2147483647)");
  EXPECT_EQ(refusal({4, kHuge}),
            "batch_size is 9223372036854775807 on rank 1 (give at most 2147483647)");
  EXPECT_EQ(refusal({kBatchSizeMax + 1}),
            "batch_size is 2147483648 on rank 0 (give at most 2147483647)");
  EXPECT_EQ(plan_of({.layout = {{11}}, .batch_sizes = {kBatchSizeMax, kBatchSizeMax}}).batches(),
            1);
}

TEST(ShardPlan, DividesAShortStepOfManyRowsAmongLargeBatches) {
  // Four ranks: one row less than a whole step.
  const std::int64_t rows = 4 * kBatchSizeMax - 1;
  for (int rank = 0; rank < 4; ++rank) {
    const ShardPlan plan = plan_of({.layout = {{rows}},
                                    .batch_sizes = std::vector<std::int64_t>(4, kBatchSizeMax),
                                    .rank = rank});
    EXPECT_EQ(plan.batch(0).valid_rows, rank < 3 ? kBatchSizeMax : kBatchSizeMax - 1);
  }
}

TEST(ShardPlan, GivesEveryRowOnceInEqualSharesAndEqualSteps) {
  for (const auto& layout : kLayouts) {
    for (int world_size : {1, 2, 3, 5, 8, 17}) {
      for (std::int64_t batch_size : {1, 2, 3, 8, 100}) {
        for (const OrderSpec& order : kOrders) {
          PlanInput input{.layout = layout_of(layout),
                          .batch_sizes = std::vector<std::int64_t>(
                              static_cast<std::size_t>(world_size), batch_size),
                          .order = order,
                          .epoch = 2};
          std::set<std::int64_t> batches, shares;
          std::int64_t shared = 0;
          for (input.rank = 0; input.rank < world_size; ++input.rank) {
            const ShardPlan plan = plan_of(input);
            std::int64_t valid = 0;
            std::set<std::int64_t> lengths;
            for (std::int64_t step = 0; step < plan.batches(); ++step) {
              const PlannedBatch batch = plan.batch(step);
              const auto length = static_cast<std::int64_t>(rows_of(batch.ranges).size());
              ASSERT_TRUE(length == batch_size || step == plan.batches() - 1);
              ASSERT_GE(length, std::max<std::int64_t>(1, batch.valid_rows));
              ASSERT_LE(length - batch.valid_rows, 1);
              valid += batch.valid_rows;
            }
            ASSERT_EQ(valid, plan.share_rows());
            ASSERT_EQ(valid, equal_share(plan.total_rows(), world_size, input.rank));
            batches.insert(plan.batches());
            shares.insert(valid);
            shared += valid;
          }
          input.rank = 0;
          ASSERT_EQ(batches.size(), 1U);
          ASSERT_LE(*shares.rbegin() - *shares.begin(), 1);
          ASSERT_EQ(shared, std::accumulate(layout.begin(), layout.end(), std::int64_t{0}));
          ASSERT_EQ(consumed_by_group(input, 0, kAllSteps), every_row(layout));
        }
      }
    }
  }
}

TEST(ShardPlan, GoesOnFromItsCursorAtAnotherWorldSize) {
  for (const auto& layout : kLayouts) {
    for (const OrderSpec& order : kOrders) {
      const PlanInput before{
          .layout = layout_of(layout), .batch_sizes = {2, 2, 2}, .order = order, .epoch = 4};
      const std::int64_t steps = plan_of(before).batches() / 2;
      PlanInput after = before;
      after.batch_sizes = {3, 3, 3, 3, 3};
      after.rows_consumed = steps == 0 ? 0 : plan_of(before).batch(steps - 1).rows_consumed;

      Rows rows = consumed_by_group(before, 0, steps);
      const Rows rest = consumed_by_group(after, 0, kAllSteps);
      rows.insert(rows.end(), rest.begin(), rest.end());
      std::sort(rows.begin(), rows.end());

      ASSERT_EQ(rows, every_row(layout));
    }
  }
}

TEST(ShardPlan, TrainsAStepOnTheSameRowsAtAnyWorldSize) {
  for (const auto& layout : kLayouts) {
    for (const OrderSpec& order : kOrders) {
      for (std::int64_t step = 0; step < 4; ++step) {
        const PlanInput one{.layout = layout_of(layout), .batch_sizes = {12}, .order = order};
        PlanInput four = one, uneven = one;
        four.batch_sizes = {3, 3, 3, 3};
        uneven.batch_sizes = {3, 3, 2, 2, 2};

        const Rows rows = consumed_by_group(one, step, step + 1);
        ASSERT_EQ(consumed_by_group(four, step, step + 1), rows);
        ASSERT_EQ(consumed_by_group(uneven, step, step + 1), rows);
      }
    }
  }
}

TEST(ShardPlan, KeepsTheOrderOfTheFilesWithOneLane) {
  const ShardPlan plan =
      plan_of({.layout = {{10, 6}}, .batch_sizes = {4, 4}, .rank = 1, .order = {.block_rows = 3}});

  EXPECT_THAT(plan.batch(0).ranges, ElementsAre(RowRange{0, 4, 4}));
  EXPECT_THAT(plan.batch(1).ranges, ElementsAre(RowRange{1, 2, 4}));
}

TEST(ShardPlan, LetsEachRankReadLanesOfItsOwnWithoutAShuffle) {
  const auto first_batch_of = [](int rank) {
    return plan_of({.layout = {{40, 40}},
                    .batch_sizes = {4, 4},
                    .rank = rank,
                    .order = {.lanes = 4, .block_rows = 10}})
        .batch(0)
        .ranges;
  };

  EXPECT_THAT(first_batch_of(0), ElementsAre(RowRange{0, 0, 2}, RowRange{0, 20, 2}));
  EXPECT_THAT(first_batch_of(1), ElementsAre(RowRange{1, 0, 2}, RowRange{1, 20, 2}));
}

TEST(ShardPlan, TellsTheLanesAndUnitsOfARank) {
  const auto plan = [](int rank) {
    return plan_of({.layout = {std::vector<std::int64_t>(16, 40)},
                    .batch_sizes = {16, 16, 32},
                    .rank = rank,
                    .order = {.lanes = 8, .block_rows = 10}});
  };

  EXPECT_EQ(plan(0).own_lanes(), (ShardPlan::Lanes{0, 2}));
  EXPECT_EQ(plan(2).own_lanes(), (ShardPlan::Lanes{4, 4}));
  EXPECT_THAT(plan(0).own_units(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(plan(1).own_units(), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(plan(2).own_units(), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

TEST(ShardPlan, TellsNoLanesOfARankWithoutRows) {
  const ShardPlan plan = plan_of({.layout = {{2}}, .batch_sizes = {1, 1, 1}, .rank = 2});

  EXPECT_EQ(plan.own_lanes(), ShardPlan::Lanes{});
  EXPECT_THAT(plan.own_units(), ElementsAre());
}

TEST(ShardPlan, TellsAllUnitsThatARankReads) {
  for (const auto& unit_rows : kLayouts) {
    for (const OrderSpec& order : kOrders) {
      for (int world_size : {1, 3, 20}) {
        for (int rank = 0; rank < world_size; ++rank) {
          const ShardPlan plan = plan_of(
              {.layout = layout_of(unit_rows),
               .batch_sizes = std::vector<std::int64_t>(static_cast<std::size_t>(world_size), 3),
               .rank = rank,
               .order = order});
          std::set<std::int64_t> read;
          for (std::int64_t step = 0; step < plan.batches(); ++step) {
            const PlannedBatch batch = plan.batch(step);
            const Rows rows = rows_of(batch.ranges);
            for (std::int64_t row = 0; row < batch.valid_rows; ++row)
              read.insert(rows[static_cast<std::size_t>(row)] / 1000000);
          }
          const auto told = plan.own_units();
          ASSERT_TRUE(std::includes(told.begin(), told.end(), read.begin(), read.end()))
              << testing::PrintToString(read) << " and " << testing::PrintToString(told);
        }
      }
    }
  }
}

TEST(ShardPlan, GoesOnInAnOrderOfVersion1) {
  // What version 1 gave for 20 units: 8 lanes.
  const std::vector<std::int64_t> units(20, 500);
  const PlannedBatch batch = plan_of({.layout = {units},
                                      .batch_sizes = {10},
                                      .order = order_of_version_1(units, true, 42),
                                      .epoch = 1})
                                 .batch(0);

  EXPECT_THAT(rows_of(batch.ranges), ElementsAre(2000210, 2000492, 382, 40, 10000287, 15000141,
                                                 18000056, 3000295, 16000366, 4000441));
}

TEST(ShardPlan, OpensFewUnitsARankWhenThereAreMany) {
  constexpr std::int64_t kLanesOfTest = 8;
  for (int world_size : {1, 2, 4, 8, 16}) {
    PlanInput input{
        .layout = {std::vector<std::int64_t>(64, 50)},
        .batch_sizes = std::vector<std::int64_t>(static_cast<std::size_t>(world_size), 16),
        .order = {.shuffle = Shuffle::Window, .lanes = kLanesOfTest}};
    std::int64_t touched = 0;
    for (input.rank = 0; input.rank < world_size; ++input.rank) {
      const ShardPlan plan = plan_of(input);
      std::set<std::int64_t> of_rank;
      for (std::int64_t step = 0; step < plan.batches(); ++step) {
        std::set<std::int64_t> of_step;
        for (const RowRange& range : plan.batch(step).ranges) of_step.insert(range.unit);
        // Each lane of the batch may change its unit in this very step.
        ASSERT_LE(static_cast<std::int64_t>(of_step.size()), 2 * plan.open_blocks());
        of_rank.merge(of_step);
      }
      touched += static_cast<std::int64_t>(of_rank.size());
    }
    // Two neighbours share the ends of each lane. More workers than lanes share lanes.
    EXPECT_LE(touched, world_size <= kLanesOfTest ? 64 + 8 + 8 : 2 * 64 + 16)
        << world_size << " workers";
  }
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (std::int64_t size = 1; size < 300; ++size) {
    for (std::uint64_t key : {0U, 1U, 12345U}) {
      const Permutation permutation(size, key);
      std::set<std::int64_t> seen;
      for (std::int64_t i = 0; i < size; ++i) seen.insert(permutation(i));
      ASSERT_EQ(static_cast<std::int64_t>(seen.size()), size);
      ASSERT_EQ(*seen.begin(), 0);
      ASSERT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(Permutation, PutsEachIndexEverywhereAboutEquallyOften) {
  constexpr int kSize = 10, kKeys = 20000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize));
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, mix(99, key));
    for (int i = 0; i < kSize; ++i)
      ++counts[static_cast<std::size_t>(i)][static_cast<std::size_t>(permutation(i))];
  }

  // We expect 2000 with a standard deviation of 42, and allow five deviations.
  for (const auto& row : counts) {
    for (int count : row) EXPECT_NEAR(count, double{kKeys} / kSize, 212);
  }
}

}  // namespace
}  // namespace train::data
