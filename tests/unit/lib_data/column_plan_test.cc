#include "lib/data/read/column_plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace train::data {

bool operator==(const PlannedRange& a, const PlannedRange& b) {
  return a.offset == b.offset && a.bytes == b.bytes && a.window == b.window;
}

namespace {

constexpr std::int64_t kMiB = 1 << 20;
using Plan = std::vector<PlannedRange>;

TEST(ColumnPlan, FetchesASmallUnitAtOnceAndNeighboursTogether) {
  EXPECT_EQ(plan_columns({{1000, 500}, {4, 996}, {1'000'000, 10}}, 2'000'000),
            (Plan{{4, 1496, 0}, {1'000'000, 10, 0}}));
}

TEST(ColumnPlan, FetchesALargeUnitWindowByWindow) {
  // Of the column that is almost all of the unit, half of what may be fetched is a window.
  const Plan plan = plan_columns({{4, 40'000}, {50'000, 64 * kMiB}}, 100 * kMiB);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0], (PlannedRange{4, 40'000, 0}));
  EXPECT_EQ(plan[1].bytes, 64 * kMiB);
  EXPECT_GT(plan[1].window, 2 * kMiB - 40'000);
  EXPECT_LE(plan[1].window, 2 * kMiB);

  std::int64_t at_once = 0;
  for (const PlannedRange& range :
       plan_columns({{0, 50 * kMiB}, {50 * kMiB, 25 * kMiB}, {75 * kMiB, 25 * kMiB}}, 100 * kMiB))
    at_once += 2 * range.window;
  EXPECT_LE(at_once, kUnitFetchBytes);
}

// A file says what it likes of itself.
TEST(ColumnPlan, LeavesOutWhatCannotBe) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(
      plan_columns(
          {{-5, 10}, {10, 0}, {20, -1}, {30, kMax}, {kMax, kMax}, {40, 50}, {60, 20}, {95, 6}},
          100),
      (Plan{{40, 50, 0}}));
  EXPECT_EQ(plan_columns({}, 100), Plan{});
}

}  // namespace
}  // namespace train::data
