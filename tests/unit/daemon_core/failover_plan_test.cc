#include "daemon/core/failover_plan.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Runs = std::vector<std::string>;
constexpr TimePoint kStart{seconds(1000)};
constexpr Duration kWait = seconds(15);

class FailoverPlanTest : public testing::Test {
 protected:
  FailoverPlanTest() { plan.prepare("run", 3, kWait); }
  FailoverPlan plan;
};

TEST_F(FailoverPlanTest, StartsOnceItsLauncherHasBeenAwayForTheTime) {
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
  plan.left("run", kStart);

  EXPECT_EQ(plan.next_deadline(), kStart + kWait);
  EXPECT_EQ(plan.due(kStart + kWait - seconds(1)), Runs());
  EXPECT_EQ(plan.due(kStart + kWait), Runs{"run"});
  EXPECT_EQ(plan.due(kStart + kWait), Runs()) << "it was started";
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
}

TEST_F(FailoverPlanTest, WaitsAnewIfTheLauncherWasBack) {
  plan.left("run", kStart);
  plan.attached("run", 3);
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());

  plan.left("run", kStart + seconds(60));
  EXPECT_EQ(plan.next_deadline(), kStart + seconds(60) + kWait);
}

TEST_F(FailoverPlanTest, AnOrderEndsWithALaterLauncher) {
  plan.attached("run", 4);
  EXPECT_FALSE(plan.order_of("run"));
  plan.left("run", kStart);
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
}

// It was cut off, and is back: its successor's order holds.
TEST_F(FailoverPlanTest, AnEarlierLauncherChangesNothing) {
  plan.left("run", kStart);
  plan.attached("run", 2);
  EXPECT_EQ(plan.next_deadline(), kStart + kWait);
}

TEST_F(FailoverPlanTest, NothingIsStartedOnceItIsCancelled) {
  plan.left("run", kStart);
  plan.cancel("run");
  EXPECT_EQ(plan.due(kStart + kWait), Runs());
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
}

TEST_F(FailoverPlanTest, TriesAgainLaterAndLater) {
  plan.left("run", kStart);
  std::vector<Duration> pauses;
  TimePoint now = kStart;
  for (int i = 0; i < 8; ++i) {
    const TimePoint next = plan.next_deadline();
    pauses.push_back(next - now);
    now = next;
    ASSERT_EQ(plan.due(now), Runs{"run"});
    plan.ended("run", /*final=*/false, now);
  }
  EXPECT_EQ(pauses,
            (std::vector<Duration>{seconds(15), seconds(30), seconds(60), seconds(120),
                                   seconds(240), seconds(300), seconds(300), seconds(300)}));
}

TEST_F(FailoverPlanTest, ALongWaitIsNotShortened) {
  plan.prepare("slow", 1, std::chrono::hours(1));
  plan.left("slow", kStart);
  EXPECT_EQ(plan.next_deadline(), kStart + std::chrono::hours(1));
}

TEST_F(FailoverPlanTest, TriesNoMoreThanAboutADay) {
  plan.left("run", kStart);
  int tries = 0;
  for (TimePoint next; (next = plan.next_deadline()) != TimePoint::max(); ++tries) {
    ASSERT_EQ(plan.due(next), Runs{"run"});
    plan.ended("run", false, next);
    ASSERT_LT(tries, 1000);
  }
  EXPECT_GT(tries, 200);
  EXPECT_FALSE(plan.order_of("run"));
}

TEST_F(FailoverPlanTest, ARunThatIsOverIsForgotten) {
  plan.left("run", kStart);
  (void)plan.due(kStart + kWait);
  plan.ended("run", /*final=*/true, kStart + kWait);
  EXPECT_FALSE(plan.order_of("run"));
}

// The launcher is back meanwhile, and gives its order again.
TEST_F(FailoverPlanTest, ARunHasOneTrainRunAtATime) {
  plan.left("run", kStart);
  (void)plan.due(kStart + kWait);
  plan.attached("run", 3);
  plan.prepare("run", 3, kWait);  // over its new link
  plan.left("run", kStart + seconds(20));
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
  EXPECT_EQ(plan.due(kStart + seconds(100)), Runs());

  plan.ended("run", false, kStart + seconds(100));
  EXPECT_EQ(plan.due(kStart + seconds(100)), Runs{"run"});
}

// The end of one that obeyed an earlier launcher says nothing of a later one's order.
TEST_F(FailoverPlanTest, TheEndOfATrainRunConcernsTheOrderThatItObeyed) {
  plan.left("run", kStart);
  (void)plan.due(kStart + kWait);
  plan.attached("run", 4);
  const auto order = plan.prepare("run", 4, kWait);

  plan.ended("run", /*final=*/true, kStart + seconds(30));
  EXPECT_EQ(plan.order_of("run"), order);

  plan.left("run", kStart + seconds(40));
  EXPECT_EQ(plan.next_deadline(), kStart + seconds(40) + kWait) << "it was not tried in vain";
}

TEST_F(FailoverPlanTest, ALauncherThatIsBackIsNotTriedAgainAfterOneInVain) {
  plan.left("run", kStart);
  (void)plan.due(kStart + kWait);
  plan.attached("run", 3);
  plan.ended("run", false, kStart + seconds(20));
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
}

TEST_F(FailoverPlanTest, KnowsNothingOfOtherRuns) {
  plan.left("other", kStart);
  plan.attached("other", 1);
  plan.ended("other", false, kStart);
  EXPECT_EQ(plan.next_deadline(), TimePoint::max());
  EXPECT_TRUE(plan.order_of("run"));
}

}  // namespace
}  // namespace train
