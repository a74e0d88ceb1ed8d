#include "launcher/core/failure_policy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kNow{seconds(1000)};
constexpr NodeId kNode{1}, kOtherNode{2};

FailureConfig allowing(int failures, int start_failures = 3) {
  FailureConfig config;
  config.max_failures = failures;
  config.max_start_failures = start_failures;
  return config;
}

void expect_decision(const FailureDecision& decision, bool restart, Duration delay,
                     const std::string& reason) {
  EXPECT_EQ(decision.restart, restart);
  EXPECT_EQ(decision.delay, delay);
  EXPECT_EQ(decision.reason, reason);
}

TEST(FailurePolicy, NeverRestartsByDefault) {
  FailurePolicy policy(allowing(0));

  expect_decision(policy.on_failure(FailureKind::Worker), false, Duration{0},
                  "no restart: max_failures is 0");
  EXPECT_EQ(policy.memory(), FailureMemory{});
}

TEST(FailurePolicy, CountsUntilTheBudgetIsUsed) {
  FailurePolicy policy(allowing(2));

  expect_decision(policy.on_failure(FailureKind::Worker), true, Duration{0}, "restart 1 of 2");
  expect_decision(policy.on_failure(FailureKind::NodeLost), true, seconds(1),
                  "restart 2 of 2 in 1.0 s");
  expect_decision(policy.on_failure(FailureKind::Worker), false, Duration{0},
                  "no restart left: 2 of 2 used (failure_config.max_failures)");
  EXPECT_EQ(policy.memory().counts.failures, 2);
}

TEST(FailurePolicy, CountsFailuresAtTheStartApart) {
  FailurePolicy policy(allowing(1, 1));

  EXPECT_EQ(policy.on_failure(FailureKind::Start).reason, "restart 1 of 1");
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker).restart);
  EXPECT_EQ(policy.on_failure(FailureKind::Start).reason,
            "no restart left: 1 of 1 used (failure_config.max_start_failures)");
}

TEST(FailurePolicy, CountsPreemptionsApartAndWithoutLimit) {
  FailurePolicy policy(allowing(0));
  for (int i = 1; i <= 20; ++i) EXPECT_TRUE(policy.on_failure(FailureKind::Preempted).restart);
  EXPECT_EQ(policy.memory().counts.preemptions, 20);
  EXPECT_FALSE(policy.on_failure(FailureKind::NodeLost).restart);  // num_workers is fixed
}

TEST(FailurePolicy, CountsLostNodesAsPreemptionsWhereTheGroupMayShrink) {
  FailureConfig config = allowing(0);
  config.max_preemptions = 1;
  FailurePolicy policy(config, true);

  EXPECT_EQ(policy.on_failure(FailureKind::NodeLost).reason, "restart 1 of 1");
  EXPECT_EQ(policy.on_failure(FailureKind::NodeLost).reason,
            "no restart left: 1 of 1 used (failure_config.max_preemptions)");
}

FailureLocation at_report(std::uint64_t report, NodeId node = NodeId{0}) {
  return {.rank = Rank{1}, .node = node, .report = report, .checkpoint = 2};
}

TEST(FailurePolicy, GivesUpWhenTheSameRankDiesAtTheSameReportAgainAndAgain) {
  FailurePolicy policy(allowing(kUnlimited));
  const FailureLocation there = at_report(41), elsewhere = at_report(44);

  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, elsewhere).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);
  expect_decision(policy.on_failure(FailureKind::Worker, there), false, Duration{0},
                  "rank 1 died after its report 41 3 times in a row, with no newer checkpoint: a "
                  "restart would end the same way");
}

TEST(FailurePolicy, ALastReportThatDidNotArriveMakesNoOtherLocation) {
  FailurePolicy policy(allowing(kUnlimited));

  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(41)).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(40)).restart);
  EXPECT_EQ(policy.on_failure(FailureKind::Worker, at_report(41)).reason,
            "rank 1 died after its report 41 3 times in a row, with no newer checkpoint: a restart "
            "would end the same way");
}

TEST(FailurePolicy, WhereReportsComeFastMoreOfThemMayBeLost) {
  FailurePolicy policy(allowing(kUnlimited));

  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(5000)).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(4960)).restart);
  EXPECT_FALSE(policy.on_failure(FailureKind::Worker, at_report(5040)).restart);
}

TEST(FailurePolicy, AFirstReportThatNeverArrivesIsAPlaceToo) {
  FailurePolicy policy(allowing(kUnlimited));

  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(0)).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(0)).restart);
  expect_decision(policy.on_failure(FailureKind::Worker, at_report(0)), false, Duration{0},
                  "rank 1 died at its first report 3 times in a row, with no newer checkpoint: a "
                  "restart would end the same way");
}

TEST(FailurePolicy, DeathsAtAnUnknownLocationAreNotAtTheSameLocation) {
  FailurePolicy policy(allowing(kUnlimited));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(policy.on_failure(FailureKind::Worker).restart);
}

TEST(FailurePolicy, TheNodeIsToBlameBeforeTheStepIs) {
  FailurePolicy policy(allowing(kUnlimited));
  const FailureLocation there = at_report(41, NodeId{1}), elsewhere = at_report(41, NodeId{0});
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there).restart);

  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, there, /*moves_away=*/true).restart);

  expect_decision(policy.on_failure(FailureKind::Worker, elsewhere), false, Duration{0},
                  "rank 1 died after its report 41 4 times in a row, with no newer checkpoint: a "
                  "restart would end the same way");
}

TEST(FailurePolicy, WhereTwoNodesFailedAtOneReportTheStepIsToBlame) {
  FailurePolicy policy(allowing(kUnlimited));
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(41, NodeId{0})).restart);
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker, at_report(41, NodeId{1})).restart);

  EXPECT_FALSE(policy.on_failure(FailureKind::Worker, at_report(41, NodeId{1}), true).restart);
}

TEST(FailurePolicy, GoesOnFromWhatEarlierLaunchersUsed) {
  FailurePolicy policy(allowing(2));
  policy.recall({.counts = {.failures = 1, .restarts_without_progress = 1}}, kNow);
  expect_decision(policy.on_failure(FailureKind::Worker), true, seconds(1),
                  "restart 2 of 2 in 1.0 s");
}

TEST(FailurePolicy, ProgressRefillsTheBudgetsAndResetsTheBackoff) {
  FailurePolicy policy(allowing(1));
  policy.on_failure(FailureKind::Worker);

  policy.on_progress();

  expect_decision(policy.on_failure(FailureKind::Worker), true, Duration{0}, "restart 1 of 1");
  EXPECT_EQ(policy.memory().counts.failures, 1);
}

TEST(FailurePolicy, WaitsTwiceAsLongEachTimeUpToTheMaximum) {
  FailureConfig config = allowing(kUnlimited);
  config.backoff = {seconds(1), seconds(5)};
  FailurePolicy policy(config);
  std::vector<Duration> delays;

  for (int i = 0; i < 6; ++i) delays.push_back(policy.on_failure(FailureKind::Worker).delay);

  EXPECT_EQ(delays, (std::vector<Duration>{Duration{0}, seconds(1), seconds(2), seconds(4),
                                           seconds(5), seconds(5)}));
  EXPECT_EQ(policy.on_failure(FailureKind::Worker).reason, "restart 7 in 5.0 s");
}

TEST(FailurePolicy, APreemptionIsFollowedAtOnceAndMakesNoFailureWaitLonger) {
  FailurePolicy policy(allowing(kUnlimited));
  for (int i = 1; i <= 3; ++i) {
    expect_decision(policy.on_failure(FailureKind::Preempted), true, Duration{0},
                    fmt::format("restart {}", i));
  }
  expect_decision(policy.on_failure(FailureKind::Worker), true, Duration{0}, "restart 1");
}

TEST(FailurePolicy, QuarantinesANodeThatFailsThreeTimesForTenMinutes) {
  FailurePolicy policy(allowing(kUnlimited));
  EXPECT_FALSE(policy.node_failed(kNode, kNow));
  EXPECT_FALSE(policy.node_failed(kNode, kNow));
  EXPECT_FALSE(policy.node_failed(kOtherNode, kNow));
  EXPECT_FALSE(policy.quarantined(kNode));
  EXPECT_EQ(policy.next_deadline(), std::nullopt);

  EXPECT_TRUE(policy.node_failed(kNode, kNow));

  EXPECT_TRUE(policy.quarantined(kNode));
  EXPECT_FALSE(policy.quarantined(kOtherNode));
  EXPECT_EQ(policy.next_deadline(), kNow + kNodeCooldown);
  EXPECT_FALSE(policy.readmit(kNow + kNodeCooldown - Duration{1}));
  EXPECT_TRUE(policy.quarantined(kNode));
  EXPECT_TRUE(policy.readmit(kNow + kNodeCooldown));
  EXPECT_FALSE(policy.quarantined(kNode));
  EXPECT_EQ(policy.next_deadline(), std::nullopt);
  EXPECT_FALSE(policy.node_failed(kNode, kNow));  // its earlier failures are forgotten
}

TEST(FailurePolicy, ProgressClearsTheFailuresOfNodesButNoQuarantine) {
  FailurePolicy policy(allowing(kUnlimited));
  for (int i = 0; i < 3; ++i) policy.node_failed(kNode, kNow);
  for (int i = 0; i < 2; ++i) policy.node_failed(kOtherNode, kNow);

  policy.on_progress();

  EXPECT_TRUE(policy.quarantined(kNode));
  EXPECT_FALSE(policy.node_failed(kOtherNode, kNow));
}

TEST(FailurePolicy, TheOnlyNodeIsNeverQuarantined) {
  FailurePolicy policy(allowing(kUnlimited), /*elastic=*/false, /*nodes=*/1);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(policy.node_failed(kNode, kNow));
  EXPECT_FALSE(policy.quarantined(kNode));
  policy.recall({.quarantined = {kNode}}, kNow);
  EXPECT_FALSE(policy.quarantined(kNode));
}

TEST(FailurePolicy, GoesOnFromTheCrashLoopOfAnEarlierLauncher) {
  FailurePolicy earlier(allowing(kUnlimited)), policy(allowing(kUnlimited));
  for (int i = 0; i < 2; ++i) earlier.on_failure(FailureKind::Worker, at_report(41));
  policy.recall(earlier.memory(), kNow);

  EXPECT_FALSE(policy.on_failure(FailureKind::Worker, at_report(41)).restart);
}

TEST(FailurePolicy, GoesOnFromTheNodesThatFailedUnderAnEarlierLauncher) {
  FailurePolicy earlier(allowing(kUnlimited)), policy(allowing(kUnlimited));
  for (int i = 0; i < 3; ++i) earlier.node_failed(kNode, kNow);
  for (int i = 0; i < 2; ++i) earlier.node_failed(kOtherNode, kNow);
  policy.recall(earlier.memory(), kNow + seconds(500));

  EXPECT_TRUE(policy.quarantined(kNode));
  EXPECT_EQ(policy.next_deadline(), kNow + seconds(500) + kNodeCooldown);
  EXPECT_TRUE(policy.node_failed(kOtherNode, kNow + seconds(500)));
}

TEST(FailurePolicy, DoesNotTryAgainWhatCannotWork) {
  FailurePolicy policy(allowing(kUnlimited, kUnlimited));

  expect_decision(policy.on_failure(FailureKind::Permanent), false, Duration{0},
                  "a restart would fail the same way");
}

}  // namespace
}  // namespace train
