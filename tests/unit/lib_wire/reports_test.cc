#include "lib/wire/reports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/wire/attempt_messages.h"

namespace train {
namespace {

ReportBatch batch_of_two() {
  ReportBatch batch{.rank = 3, .first_report_seq = 8, .count = 2, .data = {}};
  append_report(1700000000000000, false, {{"loss", 0.5}, {"epoch", std::int64_t{2}}}, batch.data);
  append_report(1700000000000001, true, {{"ok", true}, {"note", std::string("a\0b", 3)}},
                batch.data);
  return batch;
}

TEST(Reports, ABatchIsReadInOrder) {
  const auto records = read_reports(batch_of_two(), 4);
  ASSERT_TRUE(records.has_value()) << records.error().message;
  ASSERT_EQ(records->size(), 2u);
  const ReportRecord& first = (*records)[0];
  EXPECT_EQ(first.rank, 3);
  EXPECT_EQ(first.attempt, 4u);
  EXPECT_EQ(first.report_seq, 8u);
  EXPECT_EQ(first.wall_us, 1700000000000000);
  EXPECT_FALSE(first.has_checkpoint);
  EXPECT_EQ(first.metrics, (Metrics{{"loss", 0.5}, {"epoch", std::int64_t{2}}}));
  const ReportRecord& second = (*records)[1];
  EXPECT_EQ(second.report_seq, 9u);
  EXPECT_TRUE(second.has_checkpoint);
  EXPECT_EQ(second.metrics, (Metrics{{"ok", true}, {"note", std::string("a\0b", 3)}}));
}

TEST(Reports, NumbersKeepTheirKindAndValue) {
  ReportBatch batch{.rank = 0, .first_report_seq = 1, .count = 1, .data = {}};
  append_report(0, false,
                {{"whole", 2.0},
                 {"nan", std::nan("")},
                 {"inf", -std::numeric_limits<double>::infinity()},
                 {"min", std::numeric_limits<std::int64_t>::min()}},
                batch.data);
  const auto records = read_reports(batch, 0);
  ASSERT_TRUE(records.has_value());
  const Metrics& metrics = records->front().metrics;
  EXPECT_EQ(std::get<double>(metrics[0].second), 2.0);
  EXPECT_TRUE(std::isnan(std::get<double>(metrics[1].second)));
  EXPECT_EQ(std::get<double>(metrics[2].second), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<std::int64_t>(metrics[3].second), std::numeric_limits<std::int64_t>::min());
}

constexpr std::uint64_t kMany = std::uint64_t{1} << 60;

std::string report_with(const Histograms& histograms) {
  std::string report, packed;
  append_report(7, false, {{"loss", 0.5}}, report);
  for (const auto& [name, histogram] : histograms) append_histogram(name, histogram, packed);
  add_histograms(histograms.size(), packed, report);
  return report;
}

TEST(Reports, CarryHistograms) {
  const Histograms histograms{
      {"fc1", {.min = -0.5, .max = 2, .counts = {1, 0, kMany}, .nans = 3, .infinities = 300}},
      {"fc2", {.min = 0, .max = 0, .counts = {0}, .nans = 0, .infinities = 0}}};
  ReportBatch batch{.rank = 0, .first_report_seq = 1, .count = 2, .data = report_with(histograms)};
  append_report(8, false, {{"loss", 0.25}}, batch.data);

  const auto records = read_reports(batch, 0);

  ASSERT_TRUE(records.has_value()) << records.error().message;
  EXPECT_EQ(records->at(0).metrics, (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(records->at(0).histograms, histograms);
  EXPECT_EQ(records->at(1).histograms, Histograms{});
}

TEST(Reports, RefuseHistogramsThatNoSdkMakes) {
  const auto refused = [](const Histograms& histograms) {
    return read_reports(
               {.rank = 0, .first_report_seq = 1, .count = 1, .data = report_with(histograms)}, 0)
        .has_error();
  };
  const Histogram good{.min = 0, .max = 1, .counts = {1, 2}, .nans = 0, .infinities = 0};
  Histogram upside_down = good, not_a_number = good, empty = good, wide = good;
  upside_down.min = 2;
  not_a_number.min = std::nan("");
  empty.counts.clear();
  wide.counts.resize(kHistogramBinsMax + 1);

  EXPECT_FALSE(refused({{"good", good}}));
  for (const Histogram& bad : {upside_down, not_a_number, empty, wide})
    EXPECT_TRUE(refused({{"bad", bad}}));
  Histograms many;
  for (std::size_t i = 0; i <= kReportHistogramsMax; ++i)
    many.emplace_back(fmt::to_string(i), good);
  EXPECT_TRUE(refused(many));
}

TEST(Reports, WrongBatchesAreErrors) {
  ReportBatch batch = batch_of_two();
  batch.count = 3;
  EXPECT_EQ(read_reports(batch, 0).error(),
            (Error{Errc::Protocol, "a batch of rank 3 announces 3 reports but holds 2"}));
  for (std::size_t size = 1; size < batch_of_two().data.size(); ++size) {
    ReportBatch cut = batch_of_two();
    cut.data.resize(size);
    EXPECT_TRUE(read_reports(cut, 0).has_error()) << size;
  }
  ReportBatch nested{
      .rank = 0, .first_report_seq = 1, .count = 1, .data = "\x93\x01\xc2\x81\xa1m\x91\x01"};
  EXPECT_EQ(read_reports(nested, 0).error(),
            (Error{Errc::Protocol, "a metric is neither a number, a bool nor a string"}));
}

}  // namespace
}  // namespace train
