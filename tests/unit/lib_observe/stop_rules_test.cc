#include "lib/observe/stop_rules.h"

#include <gtest/gtest.h>

#include <limits>

namespace train {
namespace {

ReportRecord report(Metrics metrics, std::int32_t rank = 0) {
  return {.rank = rank,
          .attempt = 0,
          .report_seq = 1,
          .wall_us = 0,
          .has_checkpoint = false,
          .metrics = std::move(metrics)};
}

TEST(StopRules, StopsWhenRankZeroReachesAThreshold) {
  StopRules rules({{"epoch", 10}, {"val_acc", 0.9}});

  EXPECT_EQ(rules.on_report(report({{"epoch", std::int64_t{9}}, {"val_acc", 0.89}})), std::nullopt);
  EXPECT_EQ(rules.on_report(report({{"epoch", std::int64_t{10}}})),
            "epoch is 10, and stop asks for 10");
  EXPECT_EQ(rules.on_report(report({{"val_acc", 0.93}})), "val_acc is 0.93, and stop asks for 0.9");
  EXPECT_TRUE(rules.warnings().empty());
}

TEST(StopRules, IgnoresOtherRanksNaNAndText) {
  StopRules rules({{"val_acc", 0.9}});

  EXPECT_EQ(rules.on_report(report({{"val_acc", 1.0}}, /*rank=*/1)), std::nullopt);
  EXPECT_EQ(rules.on_report(report({{"val_acc", std::numeric_limits<double>::quiet_NaN()}})),
            std::nullopt);
  EXPECT_EQ(rules.on_report(report({{"val_acc", std::string("1.0")}})), std::nullopt);
  EXPECT_EQ(rules.on_report(report({{"val_acc", std::numeric_limits<double>::infinity()}})),
            "val_acc is inf, and stop asks for 0.9");
}

TEST(StopRules, WarnsOfMetricsThatNeverCame) {
  StopRules rules({{"val_acc", 0.9}, {"note", 1}, {"epoch", 3}});

  rules.on_report(report({{"note", std::string("good")}, {"epoch", std::int64_t{1}}}));

  EXPECT_EQ(rules.warnings(),
            (std::vector<std::string>{
                "stop names the metric \"val_acc\", which rank 0 never reported",
                "stop names the metric \"note\", which rank 0 never reported as a number"}));
}

}  // namespace
}  // namespace train
