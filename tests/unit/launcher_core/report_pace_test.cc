// Which acknowledgements a driver's pace holds back, and what lets them go.
#include "launcher/core/report_pace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using Acks = ReportPace::Acks;

Acks acks(int attempt, std::vector<std::pair<int, int>> ranks) {
  Acks all;
  for (const auto& [rank, report_seq] : ranks)
    all.push_back({Attempt{static_cast<std::uint32_t>(attempt)}, Rank{rank},
                   static_cast<std::uint64_t>(report_seq)});
  return all;
}

std::vector<std::string> text(const Acks& acks) {
  std::vector<std::string> all;
  for (const auto& [attempt, rank, report_seq] : acks)
    all.push_back(fmt::format("{}: {}={}", attempt.value, rank.value, report_seq));
  return all;
}

using Texts = std::vector<std::string>;

TEST(ReportPace, WithoutADriverPassesEverything) {
  ReportPace pace(false);
  EXPECT_EQ(text(pace.written(acks(0, {{0, 3}, {1, 2}}))), (Texts{"0: 0=3", "0: 1=2"}));
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 1)), Texts{});
}

TEST(ReportPace, PassesAReportOnceItIsWrittenAndItsRoundAcknowledged) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.written(acks(0, {{0, 3}, {1, 1}}))), Texts{});
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 1)), (Texts{"0: 0=1", "0: 1=1"}));
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 1)), Texts{}) << "said once";
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 2)), (Texts{"0: 0=2"})) << "1 is yet to be written";
  EXPECT_EQ(text(pace.written(acks(0, {{1, 2}}))), (Texts{"0: 1=2"}));
}

TEST(ReportPace, RepeatsToARankThatMissedAnAcknowledgement) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.written(acks(0, {{0, 2}}))), Texts{});
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 1)), (Texts{"0: 0=1"}));
  EXPECT_EQ(text(pace.written(acks(0, {{0, 2}}))), (Texts{"0: 0=1"}));
}

TEST(ReportPace, HoldsNobodyOnceARankHasEnded) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.written(acks(0, {{0, 5}, {1, 3}}))), Texts{});
  EXPECT_EQ(text(pace.let_go(Attempt{0})), (Texts{"0: 0=5", "0: 1=3"}));
  EXPECT_EQ(text(pace.written(acks(0, {{0, 6}}))), (Texts{"0: 0=6"}));
}

TEST(ReportPace, HoldsNobodyIfARankEndsBeforeAnyReport) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.let_go(Attempt{2})), Texts{});
  EXPECT_EQ(text(pace.written(acks(2, {{0, 1}}))), (Texts{"2: 0=1"}));
}

TEST(ReportPace, BeginsAnewWithEachAttempt) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.let_go(Attempt{0})), Texts{});
  EXPECT_EQ(text(pace.written(acks(1, {{0, 1}}))), Texts{});
  EXPECT_EQ(text(pace.written(acks(0, {{0, 9}}))), (Texts{"0: 0=9"})) << "nobody waits there";
  EXPECT_EQ(text(pace.acknowledged(Attempt{0}, 7)), Texts{}) << "was on the way";
  EXPECT_EQ(text(pace.let_go(Attempt{0})), Texts{}) << "likewise";
  EXPECT_EQ(text(pace.acknowledged(Attempt{1}, 1)), (Texts{"1: 0=1"}));
  EXPECT_EQ(text(pace.acknowledged(Attempt{3}, 2)), Texts{}) << "its reports are yet to be written";
  EXPECT_EQ(text(pace.written(acks(3, {{0, 4}}))), (Texts{"3: 0=2"}));
}

TEST(ReportPace, HoldsNobodyWithoutItsDriver) {
  ReportPace pace(true);
  EXPECT_EQ(text(pace.written(acks(0, {{0, 2}, {1, 1}}))), Texts{});
  EXPECT_EQ(text(pace.driver_gone()), (Texts{"0: 0=2", "0: 1=1"}));
  EXPECT_EQ(text(pace.written(acks(1, {{0, 1}}))), (Texts{"1: 0=1"}));
}

}  // namespace
}  // namespace train
