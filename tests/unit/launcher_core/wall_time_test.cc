#include "launcher/core/wall_time.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr TimePoint kBegan = TimePoint(hours(5));
constexpr TimePoint kEnd = kBegan + hours(24);

TEST(WallTime, StopsTheSpecsTimeBeforeTheEnd) {
  EXPECT_EQ(WallTime(minutes(2), seconds(30), kBegan, kEnd).stop_at(), kEnd - minutes(2));
}

TEST(WallTime, StopsEarlierIfAStopMayTakeLonger) {
  WallTime time(minutes(2), minutes(3), kBegan, kEnd);
  EXPECT_EQ(time.stop_at(), kEnd - minutes(3));
  time.checkpoint_took(minutes(10));
  time.checkpoint_took(minutes(4));
  EXPECT_EQ(time.stop_at(), kEnd - minutes(23));  // grace, and twice the longest checkpoint
}

TEST(WallTime, LetsAShortJobRunForThreeQuartersOfItsTime) {
  WallTime time(minutes(2), seconds(30), kBegan, kBegan + minutes(4));
  EXPECT_EQ(time.stop_at(), kBegan + minutes(3));
  time.checkpoint_took(hours(3));
  EXPECT_EQ(time.stop_at(), kBegan + minutes(3));
}

TEST(WallTime, FollowsAChangedLimit) {
  WallTime time(minutes(2), seconds(30), kBegan, kEnd);
  time.end_is(kEnd + hours(1));
  EXPECT_EQ(time.stop_at(), kEnd + minutes(58));
  time.end_is(kBegan - seconds(1));  // over already
  EXPECT_EQ(time.stop_at(), kBegan - seconds(1));
}

}  // namespace
}  // namespace train
