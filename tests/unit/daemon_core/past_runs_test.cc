#include "daemon/core/past_runs.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(PastRuns, AreKnownByWhatWasAddedLast) {
  PastRuns runs;
  runs.add("r1", {1, Attempt{0}});
  runs.add("r1", {3, Attempt{4}});

  EXPECT_EQ(runs.find("r1").generation, 3u);
  EXPECT_EQ(runs.find("r1").ended, Attempt{4});
  EXPECT_EQ(runs.find("r2").generation, 0u);
}

TEST(PastRuns, AreTheLastThousand) {
  PastRuns runs;
  for (int i = 0; i < 1001; ++i) runs.add("r" + std::to_string(i), {1, {}});

  EXPECT_EQ(runs.find("r0").generation, 0u);
  EXPECT_EQ(runs.find("r1").generation, 1u);
  EXPECT_EQ(runs.find("r1000").generation, 1u);
}

TEST(PastRuns, ThoseOfWhichNothingIsKnownTakeNoPlace) {
  PastRuns runs;
  runs.add("r", {1, {}});
  for (int i = 0; i < 1001; ++i) runs.add("nodes-" + std::to_string(i), {0, {}});

  EXPECT_EQ(runs.find("r").generation, 1u);
}

}  // namespace
}  // namespace train
