#include "launcher/dashboard/metric_series.h"

#include <gtest/gtest.h>

#include <cmath>

namespace train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ReportRecord report(std::uint64_t number, Metrics metrics, std::uint32_t attempt = 0) {
  return {.rank = 0,
          .attempt = attempt,
          .report_seq = number,
          .wall_us = static_cast<std::int64_t>(number) * 1'000'000,
          .metrics = std::move(metrics)};
}

/// Return a series of `count` reports with the loss that `value` gives.
template <class Value>
MetricSeries series_of(std::uint64_t count, const Value& value) {
  MetricSeries series;
  for (std::uint64_t i = 1; i <= count; ++i) series.add(report(i, {{"loss", value(i)}}), i * 100);
  return series;
}

TEST(MetricSeries, AFewReportsAreKeptOneByOne) {
  MetricSeries series;
  series.add(report(1, {{"loss", 0.5}, {"epoch", std::int64_t{0}}}), 0);
  series.add(report(2, {{"loss", kNan}, {"name", std::string("x")}}), 100);
  series.add(report(1, {{"loss", 0.25}}, 1), 200);

  EXPECT_EQ(series.reports(), 3U);
  ASSERT_EQ(series.starts().size(), 3U);
  EXPECT_EQ(series.starts()[0].epoch, 0.0);
  EXPECT_EQ(series.starts()[1].epoch, std::nullopt);
  EXPECT_EQ(series.starts()[2].offset, 200U);
  const auto& cells = *series.cells("loss");
  EXPECT_EQ(cells[0], (MetricCell{0.5, 0.5, 0.5, 0.5, 1, 0}));
  EXPECT_EQ(cells[1].count, 1U);
  EXPECT_EQ(cells[1].non_finite, 1U);
  EXPECT_EQ(series.cells("name"), nullptr);
  EXPECT_EQ(series.keys().at("name").kind, MetricInfo::Kind::Text);
  EXPECT_EQ(series.attempts(),
            (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{0, 1}, {1, 3}}));
}

TEST(MetricSeries, ManyReportsAreMergedAndASpikeSurvives) {
  constexpr std::uint64_t kReports = 100'000, kSpike = 77'777;
  const MetricSeries series =
      series_of(kReports, [](std::uint64_t i) { return i == kSpike ? 1000.0 : 1.0; });

  EXPECT_EQ(series.reports(), kReports);
  EXPECT_LE(series.starts().size(), MetricSeries::kBucketsMax);
  EXPECT_GE(series.starts().size(), MetricSeries::kBucketsMax / 2);
  const SeriesPart part = series_part(series, {"loss"}, 1, kReports, 100);
  ASSERT_LE(part.starts.size(), 100U);
  double most = 0, sum = 0;
  std::uint64_t count = 0;
  for (const MetricCell& cell : part.cells.at("loss")) {
    most = std::max(most, cell.max);
    sum += cell.sum;
    count += cell.count;
  }
  EXPECT_EQ(most, 1000.0);
  EXPECT_EQ(count, kReports);
  EXPECT_EQ(sum, kReports + 999.0);
}

TEST(MetricSeries, ANanAmongMillionsIsCounted) {
  const MetricSeries series =
      series_of(50'000, [](std::uint64_t i) { return i == 31'000 ? kNan : 1.0; });

  const SeriesPart part = series_part(series, {"loss"}, 1, 50'000, 10);

  std::uint64_t non_finite = 0;
  for (const MetricCell& cell : part.cells.at("loss")) {
    non_finite += cell.non_finite;
    EXPECT_EQ(cell.max, 1.0);
  }
  EXPECT_EQ(non_finite, 1U);
}

TEST(MetricSeries, BucketsBeginWhereTheirFirstReportIs) {
  const MetricSeries series =
      series_of(5000, [](std::uint64_t i) { return static_cast<double>(i); });

  ASSERT_EQ(series.per_bucket(), 4U);
  for (std::size_t i = 0; i < series.starts().size(); ++i) {
    const BucketStart& start = series.starts()[i];
    EXPECT_EQ(start.report, 4 * i + 1);
    EXPECT_EQ(start.offset, start.report * 100);
    EXPECT_EQ((*series.cells("loss"))[i].min, static_cast<double>(start.report));
  }
}

TEST(MetricSeries, APartHoldsOnlyItsReports) {
  const MetricSeries series =
      series_of(100, [](std::uint64_t i) { return static_cast<double>(i); });

  const SeriesPart part = series_part(series, {"loss", "other"}, 10, 19, 5);

  EXPECT_EQ(part.per_bucket, 2U);
  ASSERT_EQ(part.starts.size(), 5U);
  EXPECT_EQ(part.starts.front().report, 10U);
  EXPECT_EQ(part.cells.at("loss").back().max, 19.0);
  EXPECT_FALSE(part.cells.contains("other"));
  EXPECT_TRUE(series_part(series, {"loss"}, 200, 300, 5).starts.empty());
  EXPECT_TRUE(series_part(series, {"loss"}, 20, 10, 5).starts.empty());
}

TEST(MetricSeries, AKeyThatComesLateOrStopsHasItsPlace) {
  MetricSeries series;
  for (std::uint64_t i = 1; i <= 6; ++i)
    series.add(report(i, i == 3 || i == 4 ? Metrics{{"val", 1.0}} : Metrics{{"loss", 2.0}}), i);

  const SeriesPart part = series_part(series, {"val"}, 1, 6, 10);

  const auto& cells = part.cells.at("val");
  ASSERT_EQ(cells.size(), 6U);
  EXPECT_EQ(cells[1].count, 0U);
  EXPECT_EQ(cells[2].count, 1U);
  EXPECT_EQ(cells[5].count, 0U);
}

TEST(MetricSeries, WhatAHostileProgramReportsIsBounded) {
  MetricSeries series;
  for (std::uint64_t i = 1; i <= 3000; ++i)
    series.add(report(i, {{"key" + std::to_string(i), 1.0}, {std::string(5000, 'k'), 1.0}}), i);

  EXPECT_EQ(series.keys().size(), MetricSeries::kKeysMax);
  EXPECT_LE(series.starts().size(), MetricSeries::kBucketsMin);
}

}  // namespace
}  // namespace train
