#include "launcher/report/data_verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace train {
namespace {

constexpr TimePoint kStart{seconds(1000)};

struct Operator {
  std::string row;
  double busy = 0, input_wait = 0, rows_per_s = 0, loop_s = 100;
};

SampleTable table_of(const std::vector<Operator>& operators) {
  SampleTable table{.kind = SampleKind::Data};
  const auto add = [&](const char* field, double Operator::*value) {
    table.columns.push_back({.field = find_sample_field(table.kind, field)});
    for (const Operator& one : operators) table.columns.back().numbers.push_back(one.*value);
  };
  for (const Operator& one : operators) table.rows.push_back(one.row);
  add("busy", &Operator::busy);
  add("input_wait", &Operator::input_wait);
  add("rows_per_s", &Operator::rows_per_s);
  add("busy_s", &Operator::loop_s);
  add("input_s", &Operator::loop_s);
  return table;
}

std::string text_of(const std::vector<Operator>& operators) {
  const auto verdict = data_verdict(table_of(operators));
  return verdict ? data_verdict_text(*verdict) : "not data-bound";
}

TEST(DataVerdict, NamesTheOperatorThatHoldsUpTheRankThatWaitsMost) {
  EXPECT_EQ(text_of({{"train/decode/all", 0.9},
                     {"train/decode/2", 0.8},
                     {"train/map normalize/2", 0.2},
                     {"train/loop/2", 0.9, 0.1, 90'000},
                     {"train/index/3", 1},
                     {"train/decode/3", 0.1},
                     {"train/gather/3", 0.05},
                     {"train/map normalize/3", 0.84},
                     {"train/batch/3", 0.02},
                     {"train/loop/3", 0.38, 0.62, 41'200},
                     {"train/loop/all", 0.5, 0.9}}),
            "data-bound 62 %: map normalize, 41 k rows/s on rank 3");
}

TEST(DataVerdict, NamesADatasetOtherThanTrain) {
  EXPECT_EQ(text_of({{"train/loop/0", 0.8, 0.2, 50},
                     {"val/decode/0", 0.9},
                     {"train/decode/0", 1},
                     {"val/loop/0", 0.5, 0.5, 7.25}}),
            "data-bound 50 %: decode of val, 7.2 rows/s on rank 0");
}

TEST(DataVerdict, SaysOfNoOperatorThatItHoldsUpIfAllAreIdle) {
  EXPECT_EQ(text_of({{"train/decode/0", 0.02}, {"train/loop/0", 0, 1, 3}}),
            "data-bound 100 %: 3.0 rows/s on rank 0");
  EXPECT_EQ(text_of({{"val/loop/0", 0, 1, 3}}),
            "data-bound 100 %: dataset val, 3.0 rows/s on rank 0");
}

TEST(DataVerdict, IsNoneOfLoopsThatHaveTheirDataOrHaveHardlyBegun) {
  EXPECT_EQ(text_of({{"train/decode/0", 1}, {"train/loop/0", 0.91, 0.09, 3}}), "not data-bound");
  EXPECT_EQ(text_of({{"train/loop/0", 0.5, 0.5, 3, 0.5}}), "not data-bound");
  EXPECT_EQ(text_of({}), "not data-bound");
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(text_of({{"train/loop/0", kNan, kNan, kNan}, {"", 1, 1}, {"x", 1, 1}}),
            "not data-bound");
}

TEST(DataVerdict, RatesAreShort) {
  for (const auto& [rate, text] :
       std::vector<std::pair<double, std::string>>{{0, "0.0 rows/s"},
                                                   {9.94, "9.9 rows/s"},
                                                   {99.6, "100 rows/s"},
                                                   {999, "999 rows/s"},
                                                   {1'234, "1.2 k rows/s"},
                                                   {41'000, "41 k rows/s"},
                                                   {999'600, "1.0 M rows/s"},
                                                   {2e9, "2.0 G rows/s"}})
    EXPECT_EQ(rows_per_s_text(rate), text);
}

DataVerdict bound(double share, const std::string& operation = "decode") {
  return {.share = share, .rank = 1, .dataset = "train", .operation = operation, .rows_per_s = 50};
}

TEST(DataBoundWatch, SaysItOnceItLastsAndOnceItIsOver) {
  DataBoundWatch watch;
  const auto said = [&](const std::optional<DataVerdict>& verdict, int from, int to) {
    std::vector<std::string> lines;
    for (int second = from; second < to; ++second)
      if (const auto change = watch.judged(verdict, kStart + seconds(second)))
        lines.push_back((change->bound ? "+ " : "- ") + change->text);
    return lines;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(said(bound(0.6), 0, 29), Lines{});
  EXPECT_EQ(said(std::nullopt, 29, 30), Lines{});  // it did not last
  EXPECT_EQ(said(bound(0.6), 30, 60), Lines{});
  EXPECT_EQ(said(bound(0.7), 60, 200), (Lines{"+ data-bound 70 %: decode, 50 rows/s on rank 1"}));
  EXPECT_EQ(said(bound(0.15), 200, 220), Lines{});
  EXPECT_EQ(said(bound(0.7), 220, 260), Lines{});  // still
  EXPECT_EQ(said(bound(0.7, "gather"), 260, 300),
            (Lines{"+ data-bound 70 %: gather, 50 rows/s on rank 1"}));
  EXPECT_EQ(said(std::nullopt, 300, 400), (Lines{"- no longer data-bound"}));
}

TEST(DataBoundWatch, SaysNoMoreThanPeopleRead) {
  DataBoundWatch watch;
  int lines = 0;
  for (int second = 0; second < 100'000; ++second) {
    const std::string operation = "map " + std::to_string(second / 40);
    const auto change = watch.judged(bound(0.9, operation), kStart + seconds(second));
    lines += change.has_value();
  }
  EXPECT_EQ(lines, DataBoundWatch::kLinesMax);
}

}  // namespace
}  // namespace train
