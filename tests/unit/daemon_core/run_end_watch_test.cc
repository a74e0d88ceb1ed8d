#include "daemon/core/run_end_watch.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStart{};
constexpr Duration kWithin = std::chrono::minutes(30), kOrphan = std::chrono::minutes(10);

TEST(RunEndWatch, EndsWithTheRunAndItsCodeOnceNothingOfItIsLeft) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  EXPECT_FALSE(watch.advance(true, kStart + kWithin + kOrphan));

  watch.ended(1, 3);
  EXPECT_FALSE(watch.advance(false, kStart));
  const auto end = watch.advance(true, kStart);

  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 3);
  EXPECT_EQ(end->problem, "");
}

TEST(RunEndWatch, GivesUpIfNoLauncherComes) {
  RunEndWatch watch(kWithin, kStart);
  EXPECT_EQ(watch.next_deadline(), kStart + kWithin);
  EXPECT_FALSE(watch.advance(true, kStart + kWithin - seconds(1)));

  const auto end = watch.advance(true, kStart + kWithin);

  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 69);
  EXPECT_EQ(end->problem,
            "no launcher has come within 30 min 0 s: look at the member that starts the run");
}

TEST(RunEndWatch, WaitsForAnotherLauncherAsLongAsTheWorkersDo) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  watch.closed(1, kStart + seconds(5));
  EXPECT_EQ(watch.next_deadline(), kStart + seconds(5) + kOrphan);
  EXPECT_FALSE(watch.advance(true, kStart + kOrphan));
  watch.attached(2, "vit", kOrphan);
  EXPECT_FALSE(watch.advance(true, kStart + kWithin));
  watch.closed(2, kStart + kWithin);
  EXPECT_FALSE(watch.advance(false, kStart + kWithin + kOrphan)) << "its supervisor still ends";

  const auto end = watch.advance(true, kStart + kWithin + kOrphan);

  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 69);
  EXPECT_EQ(end->problem,
            "the launcher of the run vit died, and no other one came within 10 min 0 s");
}

TEST(RunEndWatch, ALauncherThatConnectsAgainReplacesItsOlderLink) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  watch.attached(2, "vit", kOrphan);
  watch.closed(1, kStart);
  EXPECT_EQ(watch.next_deadline(), TimePoint::max());
  watch.ended(2, 0);
  watch.closed(2, kStart);
  EXPECT_EQ(watch.advance(true, kStart)->exit_code, 0);
}

TEST(RunEndWatch, OnlyWhoHasTheRunSaysHowItEndedButARunMayEndBeforeItBegins) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  watch.ended(7, 0);
  EXPECT_FALSE(watch.advance(true, kStart));

  RunEndWatch other(kWithin, kStart);
  other.ended(7, 73);
  EXPECT_EQ(other.advance(true, kStart)->exit_code, 73);
}

TEST(RunEndWatch, ARunThatIsStartedAgainHasNotEnded) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  watch.ended(1, 75);
  watch.attached(2, "vit", kOrphan);
  EXPECT_FALSE(watch.advance(true, kStart));
}

TEST(RunEndWatch, ANodeThatWasDrainedLeavesWithTheCodeForALaterStart) {
  RunEndWatch watch(kWithin, kStart);
  watch.attached(1, "vit", kOrphan);
  EXPECT_EQ(watch.code_after_drain(), 75);
  watch.ended(1, 0);
  EXPECT_EQ(watch.code_after_drain(), 0);
}

TEST(RunEndWatch, AVeryLongWaitDoesNotOverflow) {
  RunEndWatch watch(Duration::max(), kStart + seconds(10));
  EXPECT_EQ(watch.next_deadline(), TimePoint::max());
  EXPECT_FALSE(watch.advance(true, kStart + seconds(20)));
}

}  // namespace
}  // namespace train
