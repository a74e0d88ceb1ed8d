#include "daemon/core/private_traind.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStarted{seconds(1000)}, kLimit = kStarted + kFirstLauncherLimit;

TEST(PrivateTraind, WaitsForItsFirstLauncherUntilTheLimit) {
  EXPECT_FALSE(waited_for_launchers(kStarted, false, kLimit - milliseconds(1)));
  EXPECT_EQ(look_again_at(kStarted, false, kStarted), kLimit);
  EXPECT_TRUE(waited_for_launchers(kStarted, false, kLimit));
}

TEST(PrivateTraind, WaitsForNoOtherLauncher) {
  EXPECT_TRUE(waited_for_launchers(kStarted, true, kStarted));
  EXPECT_EQ(look_again_at(kStarted, true, kStarted), TimePoint::max());
}

// Workers of an earlier traind may be left; it would look for their end without a pause.
TEST(PrivateTraind, TimeAloneChangesNothingAfterTheLimit) {
  EXPECT_EQ(look_again_at(kStarted, false, kLimit), TimePoint::max());
}

}  // namespace
}  // namespace train
