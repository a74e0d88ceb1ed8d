#include "lib/samples/data_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lib/samples/data_rows.h"
#include "lib/samples/sample_json.h"
#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;

constexpr TimePoint kStart{seconds(1000)};
constexpr std::int64_t kSecond = 1'000'000;
constexpr Attempt kFirst{0}, kSecondAttempt{1};

DataOperator decode(std::int64_t rows, std::int64_t busy_us, std::int64_t room_us = 0) {
  return {.dataset = "train",
          .kind = OperatorKind::Decode,
          .rows = rows,
          .bytes = 8 * rows,
          .busy_us = busy_us,
          .room_us = room_us};
}
DataOperator loop(std::int64_t rows, std::int64_t busy_us, std::int64_t input_us) {
  return {.dataset = "train",
          .kind = OperatorKind::Loop,
          .rows = rows,
          .bytes = 8 * rows,
          .busy_us = busy_us,
          .input_us = input_us};
}

struct Collected : ::testing::Test {
  /// Take what ranks say `at` seconds after the start.
  void sample(int at, std::vector<RankData> ranks, Attempt attempt = kFirst) {
    collector.sampled(attempt, (100 + at) * kSecond, ranks, kStart + seconds(at));
  }
  SampleTable newest(int at) const {
    return collector.newest(kStart + seconds(at), kNoon).value_or(SampleTable{});
  }
  SampleTable kept(int at) {
    return collector.kept(kStart + seconds(at), kNoon).value_or(SampleTable{});
  }
  static double value(const SampleTable& table, const std::string& row, const char* field) {
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      if (table.rows[i] == row) return table.number(field, i);
    ADD_FAILURE() << row;
    return 0;
  }

  DataCollector collector;
};

TEST_F(Collected, HasRatesAndPartsOfTheTimeOfEachRankAndOfAll) {
  sample(0, {{Rank{3}, {decode(100, kSecond), loop(90, 0, 0)}}});
  EXPECT_TRUE(kept(0).rows.empty());
  sample(2, {{Rank{3}, {decode(300, 2 * kSecond, kSecond), loop(290, kSecond / 2, kSecond)}}});

  EXPECT_EQ(line_of(kept(2)),
            R"({"t":1800000000000,"span":2000,"attempt":0,"kind":"data",)"
            R"("rows":["train/decode/all","train/decode/3","train/loop/all","train/loop/3"],)"
            R"("rows_total":[300,300,290,290],"bytes_total":[2400,2400,2320,2320],)"
            R"("rows_per_s":100,"bytes_per_s":800,"busy":[0.5,0.5,0.25,0.25],)"
            R"("input_wait":[0,0,0.5,0.5],"room_wait":[0.5,0.5,0,0],"queue_bytes":0,)"
            R"("busy_s":[2,2,0.5,0.5],"input_s":[0,0,1,1],"room_s":[1,1,0,0],)"
            R"("worst_rank":[null,null,3,null],"worst_wait":[null,null,0.5,null]})"
            "\n");
  EXPECT_TRUE(kept(2).rows.empty());  // nothing new
}

TEST_F(Collected, AddsUpRanksAndNamesTheOneThatWaitsMost) {
  sample(0, {{Rank{0}, {loop(0, 0, 0)}}, {Rank{1}, {loop(0, 0, 0)}}});
  sample(1, {{Rank{0}, {loop(40, 0, kSecond / 10)}}, {Rank{1}, {loop(10, 0, kSecond / 2)}}});
  const SampleTable table = newest(1);
  EXPECT_EQ(value(table, "train/loop/all", "rows_per_s"), 50);
  EXPECT_DOUBLE_EQ(value(table, "train/loop/all", "input_wait"), 0.3);
  EXPECT_EQ(value(table, "train/loop/all", "worst_rank"), 1);
  EXPECT_EQ(value(table, "train/loop/all", "worst_wait"), 0.5);
  EXPECT_EQ(value(table, "train/loop/1", "rows_per_s"), 10);
}

TEST_F(Collected, ShowsTheLast10To20SecondsAsNewest) {
  for (int second = 0; second <= 35; ++second)  // it waits from 30 s on
    sample(second, {{Rank{0}, {loop(0, 0, std::max(0, second - 30) * kSecond)}}});
  // 20 s are the newest time from which 10 s have passed.
  EXPECT_DOUBLE_EQ(value(newest(35), "train/loop/0", "input_wait"), 5. / 15);
}

TEST_F(Collected, ForgetsRanksThatEndedOrSayNothingMore) {
  sample(0, {{Rank{0}, {loop(5, 0, 0)}}, {Rank{1}, {loop(5, 0, 0)}}});
  collector.ended(kFirst, Rank{0});
  EXPECT_THAT(newest(1).rows, ElementsAre("train/loop/all", "train/loop/1"));
  EXPECT_TRUE(newest(60).rows.empty());
  EXPECT_EQ(value(*collector.whole_run(), "train/loop/all", "rows_total"), 10);
}

TEST_F(Collected, TheWholeRunHasAllAttemptsAndProcesses) {
  sample(0, {{Rank{0}, {loop(10, kSecond, kSecond)}}});
  sample(1, {{Rank{0}, {loop(3, 0, kSecond)}}});  // fewer rows: a process that began anew
  sample(2, {{Rank{0}, {loop(7, kSecond, kSecond)}}}, kSecondAttempt);
  sample(3, {{Rank{0}, {loop(1000, 0, 0)}}}, kFirst);  // late
  const SampleTable run = *collector.whole_run();
  EXPECT_EQ(value(run, "train/loop/0", "rows_total"), 20);
  EXPECT_DOUBLE_EQ(value(run, "train/loop/0", "input_wait"), 3. / 5);
}

TEST_F(Collected, TheRatesOfTheWholeRunAreThoseOfItsTime) {
  sample(0, {{Rank{0}, {loop(0, 0, 0)}}});
  sample(10, {{Rank{0}, {loop(50, kSecond, kSecond)}}});  // the rest of the time it read nothing
  const SampleTable run = *collector.whole_run();
  EXPECT_EQ(value(run, "train/loop/all", "rows_per_s"), 5);
  EXPECT_EQ(value(run, "train/loop/0", "input_wait"), 0.1);
}

TEST_F(Collected, ATornSampleIsNoNewProcess) {
  sample(0, {{Rank{0}, {loop(10, 5 * kSecond, kSecond)}}});
  sample(1, {{Rank{0}, {loop(10, 4 * kSecond, kSecond)}}});
  EXPECT_EQ(value(newest(1), "train/loop/0", "busy"), 0);
  EXPECT_EQ(value(*collector.whole_run(), "train/loop/0", "busy_s"), 4);
}

TEST_F(Collected, OfManyRanksTheFilesHaveTheSumAndTheNewestTheHungriest) {
  std::vector<RankData> before, now;
  for (int rank = 0; rank < 600; ++rank) {
    before.push_back({Rank{rank}, {loop(0, 0, 0)}});
    now.push_back({Rank{rank}, {loop(2, 0, rank == 599 ? kSecond : std::int64_t{rank} * 100)}});
  }
  sample(0, before);
  kept(0);
  sample(1, now);
  EXPECT_THAT(kept(1).rows, ElementsAre("train/loop/all"));
  const SampleTable table = newest(1);
  EXPECT_EQ(table.rows.size(), 1 + kDataRanksNewest);
  EXPECT_EQ(table.rows[1], "train/loop/88");  // those that wait least are left out
  EXPECT_EQ(value(table, "train/loop/all", "rows_per_s"), 1200);
  EXPECT_EQ(value(table, "train/loop/599", "input_wait"), 1);
}

TEST_F(Collected, TakesWhateverRanksSayWithinItsBounds) {
  std::vector<DataOperator> operators;
  for (int i = 0; i < 100; ++i)
    operators.push_back({.dataset = "d" + std::to_string(i), .kind = OperatorKind::Loop});
  operators[0].dataset = "\x1b[2J";
  operators[1].dataset = "a/b";
  operators[2].kind = static_cast<OperatorKind>(200);
  operators[3].rows = std::numeric_limits<std::int64_t>::max();
  operators[3].busy_us = std::numeric_limits<std::int64_t>::min();
  operators[5] = operators[4];  // twice
  sample(0, {{Rank{0}, operators}});
  const SampleTable table = newest(0);
  EXPECT_EQ(table.rows.size(), 2 * kDataOperatorsMax);
  for (const std::string& row : table.rows) EXPECT_TRUE(parse_data_row(row)) << row;

  for (int rank = 1; rank < 30; ++rank) {
    for (DataOperator& one : operators) one.dataset = std::to_string(rank) + one.dataset;
    sample(1, {{Rank{rank}, operators}});
  }
  std::size_t all = 0;
  for (const std::string& row : newest(1).rows) all += !parse_data_row(row)->rank;
  EXPECT_EQ(all, kDataOperatorsKnownMax);
}

TEST_F(Collected, ATableOfManyOperatorsOfManyRanksCanStillBeRead) {
  std::vector<RankData> ranks;
  for (int rank = 0; rank < 600; ++rank) {
    ranks.push_back({Rank{rank}, {}});
    for (std::size_t i = 0; i < kDataOperatorsMax; ++i)
      ranks.back().operators.push_back({.dataset = "a-name-of-some-length-" + std::to_string(i),
                                        .kind = OperatorKind::Loop,
                                        .rows = 1'000'000'000'000'000});
  }
  sample(0, ranks);
  const SampleTable table = newest(0);
  EXPECT_GT(table.rows.size(), 30'000u);
  const std::string line = line_of(table);
  EXPECT_TRUE(parse_sample_line(line.substr(0, line.size() - 1)));
}

TEST(DataRow, IsReadFromItsName) {
  EXPECT_EQ(data_row_name("train", "map a.b", 3), "train/map a.b/3");
  const auto row = parse_data_row("train/map a.b/3");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->dataset, "train");
  EXPECT_EQ(row->operation, "map a.b");
  EXPECT_EQ(row->rank, 3);
  EXPECT_EQ(parse_data_row("train/loop/all")->rank, std::nullopt);
  for (const char* name :
       {"", "a", "a/b", "/b/3", "a//3", "a/b/", "a/b/x", "a/b/-1", "a/b/99999999999", "\x1b/b/3"})
    EXPECT_FALSE(parse_data_row(name)) << name;
}

}  // namespace
}  // namespace train
