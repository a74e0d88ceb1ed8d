// How the rows of a step are divided among ranks of unequal speed, and what each part weighs.
#include "lib/data/plan/step_division.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

namespace train::data {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using Sizes = std::vector<std::int64_t>;

StepDivision division_of(Sizes sizes, int rank) {
  return *StepDivision::make(std::move(sizes), rank);
}

TEST(StepDivision, WeighsEachRankByItsPartOfTheStep) {
  EXPECT_THAT(division_of({8, 8}, 1).slice_of(16).weight, DoubleEq(1));
  EXPECT_THAT(division_of({12, 4}, 0).slice_of(16).weight, DoubleEq(1.5));
  EXPECT_THAT(division_of({12, 4}, 1).slice_of(16).weight, DoubleEq(0.5));
  // The last step: 5 rows of 16 are 3 and 2.
  EXPECT_THAT(division_of({8, 8}, 0).slice_of(5).weight, DoubleEq(3 * 2 / 5.0));
  EXPECT_THAT(division_of({8, 8}, 1).slice_of(5).weight, DoubleEq(2 * 2 / 5.0));
  EXPECT_THAT(division_of({8, 8}, 1).slice_of(1).weight, DoubleEq(0));
}

TEST(Weigh, DividesTheSameRowsByWeight) {
  EXPECT_THAT(weigh({32, 32}, {1, 1}), ElementsAre(32, 32));
  EXPECT_THAT(weigh({32, 32}, {3, 1}), ElementsAre(48, 16));
  EXPECT_THAT(weigh({40, 20}, {1, 1}), ElementsAre(40, 20));
  EXPECT_THAT(weigh({40, 20}, {1, 2}), ElementsAre(30, 30));
  EXPECT_THAT(weigh({5, 5, 5}, {1, 1, 0.001}), ElementsAre(7, 7, 1)) << "a row is the least";
  EXPECT_THAT(weigh({1, 1, 1}, {100, 1, 1}), ElementsAre(1, 1, 1));
  EXPECT_THAT(weigh({7}, {0.5}), ElementsAre(7));
}

TEST(Weigh, KeepsTheSumAndARowForEach) {
  std::mt19937_64 random(15);
  for (int i = 0; i < 2000; ++i) {
    Sizes sizes(1 + random() % 9);
    std::vector<double> weights(sizes.size());
    for (auto& size : sizes)
      size = 1 + static_cast<std::int64_t>(
                     random() % (i % 3 == 0 ? static_cast<unsigned long>(kBatchSizeMax) : 50));
    for (auto& weight : weights) weight = 0.001 * static_cast<double>(1 + random() % 1000000);

    const Sizes parts = weigh(sizes, weights);

    ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}),
              std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    for (const auto part : parts) ASSERT_GE(part, 1);
  }
}

TEST(Balance, GivesSlowRanksFewerRows) {
  EXPECT_THAT(balance({32, 32}, {300, 100}), ElementsAre(48, 16));
  EXPECT_THAT(balance({60, 4}, {100, 50}), ElementsAre(43, 21)) << "their own sizes do not matter";
}

TEST(Balance, LeavesRanksAloneThatAreAboutAsFast) {
  EXPECT_THAT(balance({32, 32}, {100, 104.9}), ElementsAre(32, 32));
  EXPECT_THAT(balance({40, 24}, {100, 100}), ElementsAre(40, 24));
}

TEST(Balance, GivesNobodyMoreThanTwiceAnEqualPart) {
  EXPECT_THAT(balance({30, 30, 30, 30}, {1000, 1, 1, 1}), ElementsAre(60, 20, 20, 20));
  EXPECT_THAT(balance({30, 30}, {1000, 1}), ElementsAre(53, 7)) << "0.25 of 30 is the least";
}

}  // namespace
}  // namespace train::data
