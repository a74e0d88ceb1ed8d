#include "launcher/cluster/checkpoints/store_trouble.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(StoreTrouble, IsSaidAtOnceAndNotAgainAtOnce) {
  const auto say = say_store_trouble(), other = say_store_trouble();
  testing::internal::CaptureStderr();
  say("503 Slow Down; trying again");
  say("503 Slow Down; trying again");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "train-run: 503 Slow Down; trying again\n");

  testing::internal::CaptureStderr();
  other("no route");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "train-run: no route\n");
}

}  // namespace
}  // namespace train
