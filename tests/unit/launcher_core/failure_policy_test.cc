#include "launcher/core/failure_policy.h"

#include <gtest/gtest.h>

namespace train {
namespace {

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
  EXPECT_EQ(policy.restarts(), 0);
}

TEST(FailurePolicy, CountsUntilTheBudgetIsUsed) {
  FailurePolicy policy(allowing(2));

  expect_decision(policy.on_failure(FailureKind::Worker), true, Duration{0}, "restart 1 of 2");
  expect_decision(policy.on_failure(FailureKind::NodeLost), true, seconds(1),
                  "restart 2 of 2 in 1.0 s");
  expect_decision(policy.on_failure(FailureKind::Worker), false, Duration{0},
                  "no restart left: 2 of 2 used (failure_config.max_failures)");
  EXPECT_EQ(policy.restarts(), 2);
}

TEST(FailurePolicy, CountsFailuresAtTheStartApart) {
  FailurePolicy policy(allowing(1, 1));

  EXPECT_EQ(policy.on_failure(FailureKind::Start).reason, "restart 1 of 1");
  EXPECT_TRUE(policy.on_failure(FailureKind::Worker).restart);
  EXPECT_EQ(policy.on_failure(FailureKind::Start).reason,
            "no restart left: 1 of 1 used (failure_config.max_start_failures)");
}

TEST(FailurePolicy, ProgressRefillsTheBudgetsAndResetsTheBackoff) {
  FailurePolicy policy(allowing(1));
  policy.on_failure(FailureKind::Worker);

  policy.on_progress();

  expect_decision(policy.on_failure(FailureKind::Worker), true, Duration{0}, "restart 1 of 1");
  EXPECT_EQ(policy.restarts(), 2);
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

TEST(FailurePolicy, DoesNotTryAgainWhatCannotWork) {
  FailurePolicy policy(allowing(kUnlimited, kUnlimited));

  expect_decision(policy.on_failure(FailureKind::Permanent), false, Duration{0},
                  "a restart would fail the same way");
}

}  // namespace
}  // namespace train
