#include "launcher/core/search/median_rule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace train {
namespace {

TEST(MedianRule, StopsWhatIsWorseThanTheMedianOfTheOthersMeans) {
  MedianRule rule({.grace_time = 2, .min_samples = 3}, SearchMode::Min);
  // Means over 2…4: 2, 4, 6. What came before the grace time does not count.
  for (int trial = 0; trial < 3; ++trial)
    for (int time = 1; time <= 4; ++time)
      EXPECT_FALSE(rule.reported(trial, time, time == 1 ? 100 : 2.0 * (trial + 1)))
          << "too few have come so far";
  EXPECT_FALSE(rule.reported(3, 1, 50)) << "within the grace time";
  EXPECT_TRUE(rule.reported(3, 2, 5)) << "its best, 5, is more than 4";
  EXPECT_FALSE(rule.reported(4, 2, 4)) << "4 is not worse than the median of 2, 4, 5, 6";
  EXPECT_FALSE(rule.reported(4, 3, 1000)) << "its best counts, not its newest";
}

TEST(MedianRule, TakesTheMeanUpToThatTime) {
  MedianRule rule({.grace_time = 0, .min_samples = 1}, SearchMode::Max);
  rule.reported(0, 1, 1);
  rule.reported(0, 2, 3);
  rule.reported(0, 3, 100);
  EXPECT_TRUE(rule.reported(1, 2, 1.9)) << "the other had 2 on average";
  EXPECT_FALSE(rule.reported(2, 2, 2.1)) << "the median of 1.9 and 2 is less";
}

TEST(MedianRule, WhatIsNotFiniteIsLeftOut) {
  MedianRule rule({.grace_time = 0, .min_samples = 1}, SearchMode::Min);
  rule.reported(0, 1, std::nan(""));
  rule.reported(0, 2, INFINITY);
  EXPECT_FALSE(rule.reported(1, 1, 5)) << "no other has a mean";
  rule.reported(0, 3, 4);
  EXPECT_FALSE(rule.reported(1, 2, std::nan(""))) << "the other has no mean until then";
  EXPECT_TRUE(rule.reported(1, 3, std::nan(""))) << "its best is 5; the mean of 4 is 4";
}

TEST(MedianRule, OfManyReportsTheSumsStayRight) {
  MedianRule rule({.grace_time = 0, .min_samples = 1}, SearchMode::Min);
  const int reports = 5 * static_cast<int>(MedianRule::kKeptMax) + 3;
  for (int time = 0; time < reports; ++time) rule.reported(0, time, time % 2 == 0 ? 0 : 2);
  EXPECT_FALSE(rule.reported(1, reports - 1, 0.99)) << "the mean is about 1";
  EXPECT_TRUE(rule.reported(2, reports - 1, 1.01));
}

}  // namespace
}  // namespace train
