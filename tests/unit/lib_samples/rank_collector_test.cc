#include "lib/samples/rank_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kStart{seconds(1000)};
constexpr std::int64_t kSecond = 1'000'000;
constexpr Attempt kFirst{0};

RankSample sample_of(std::int32_t rank, std::uint64_t steps = 0) {
  RankSample sample{.rank = Rank{rank},
                    .progress = {.phase = Phase::Step, .steps = steps},
                    .process = {.pid = 100 + rank, .state = "S", .processes = 1, .threads = 4}};
  sample.progress.intervals.resize(kPhases.size());
  return sample;
}

std::int64_t& total_of(RankSample& sample, Phase phase) {
  return sample.progress.intervals[static_cast<std::size_t>(phase)].total_us;
}

TEST(RankCollector, MakesRatesOfWhatWasCountedBetweenTwoSamples) {
  RankCollector collector;
  RankSample before = sample_of(3, 10);
  before.process.cpu_us = 5 * kSecond;
  before.process.read_bytes = 1000;
  RankSample now = sample_of(3, 14);
  now.progress.last_step_us = 480'000;
  now.progress.quiet_us = 250'000;
  now.process.cpu_us = 8 * kSecond;
  now.process.cpu_wait_us = kSecond / 2;
  now.process.read_bytes = 5000;
  now.process.written_bytes = 600;
  now.process.context_switches = 50;
  now.process.resident_bytes = 1 << 20;
  now.process.memory_limit = 1 << 21;
  total_of(now, Phase::Data) = kSecond;
  total_of(now, Phase::Collective) = 200'000;
  total_of(now, Phase::Report) = 40'000;

  collector.sampled(kFirst, "node-a", 10 * kSecond, std::vector{before}, kStart);
  collector.sampled(kFirst, "node-a", 12 * kSecond, std::vector{now}, kStart + seconds(5));

  EXPECT_EQ(line_of(collector.newest(kStart + seconds(5), kNoon)),
            R"({"t":1800000000000,"span":1000,"attempt":0,"kind":"ranks","rows":"3",)"
            R"("node":"node-a","pid":103,"state":"S","phase":"step","quiet_s":0.25,"steps":14,)"
            R"("step_s":0.48,"steps_per_s":2,"collectives":0,"data_wait":0.5,)"
            R"("collective_wait":0.1,"checkpoint_wait":0,"report_wait":0.02,"cpu":1.5,)"
            R"("cpu_wait":0.25,"rss":1048576,"memory_limit":2097152,"processes":1,"threads":4,)"
            R"("read_per_s":2000,"written_per_s":300,"switches_per_s":25})"
            "\n");
}

TEST(RankCollector, CountsAWaitThatHasNotEnded) {
  RankCollector collector;
  RankSample before = sample_of(0);
  RankSample now = sample_of(0);
  now.progress.phase = Phase::Collective;
  now.progress.name = "all_reduce";
  now.progress.text = "bucket 3";
  now.progress.quiet_us = 750'000;

  collector.sampled(kFirst, "a", kSecond, std::vector{before}, kStart);
  collector.sampled(kFirst, "a", 2 * kSecond, std::vector{now}, kStart);
  const SampleTable table = collector.newest(kStart, kNoon);

  EXPECT_EQ(table.number("collective_wait", 0), 0.75);
  EXPECT_EQ(table.text("doing", 0), "all_reduce: bucket 3");
}

TEST(RankCollector, KnowsNoRateOfAnotherProcessOrAnotherNodeOrAnOldSample) {
  RankCollector collector;
  RankSample other = sample_of(0);
  other.process.pid = 999;
  collector.sampled(kFirst, "a", kSecond, std::vector{sample_of(0), sample_of(1), sample_of(2)},
                    kStart);
  collector.sampled(kFirst, "a", 2 * kSecond, std::vector{other}, kStart);
  collector.sampled(kFirst, "b", 2 * kSecond, std::vector{sample_of(1)}, kStart);
  collector.sampled(kFirst, "a", 62 * kSecond, std::vector{sample_of(2)}, kStart);

  const SampleTable table = collector.newest(kStart, kNoon);

  ASSERT_THAT(table.rows, ElementsAre("0", "1", "2"));
  for (std::size_t row = 0; row < 3; ++row) EXPECT_TRUE(std::isnan(table.number("cpu", row)));
}

TEST(RankCollector, KnowsOnlyTheProcessesOfAProgramWithoutTheSdk) {
  RankCollector collector;
  RankSample sample = sample_of(0);
  sample.progress = {};
  collector.sampled(kFirst, "a", kSecond, std::vector{sample}, kStart);
  sample.process.cpu_us = kSecond / 4;
  collector.sampled(kFirst, "a", 2 * kSecond, std::vector{sample}, kStart);

  const SampleTable table = collector.newest(kStart, kNoon);

  EXPECT_EQ(table.text("phase", 0), "");
  EXPECT_TRUE(std::isnan(table.number("steps", 0)));
  EXPECT_TRUE(std::isnan(table.number("data_wait", 0)));
  EXPECT_EQ(table.number("cpu", 0), 0.25);
}

TEST(RankCollector, TakesTheTimeOfArrivalIfANodeSaysNone) {
  RankCollector collector;
  RankSample now = sample_of(0, 6);
  collector.sampled(kFirst, "a", 0, std::vector{sample_of(0)}, kStart);
  collector.sampled(kFirst, "a", 0, std::vector{now}, kStart + seconds(2));

  EXPECT_EQ(collector.newest(kStart + seconds(2), kNoon).number("steps_per_s", 0), 3);
}

TEST(RankCollector, TakesNoHarmFromHostileClocksAndCounts) {
  RankCollector collector;
  for (const std::int64_t taken_us : {std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(), std::int64_t{1}})
    for (const std::uint64_t steps : {~std::uint64_t{0}, std::uint64_t{0}})
      collector.sampled(kFirst, "a", taken_us, std::vector{sample_of(0, steps)}, kStart);

  EXPECT_EQ(collector.newest(kStart, kNoon).number("steps", 0), 0);
}

TEST(RankCollector, ForgetsRanksThatEndedThatAreSilentOrOfAnEarlierAttempt) {
  RankCollector collector;
  collector.sampled(kFirst, "a", kSecond, std::vector{sample_of(0), sample_of(1)}, kStart);
  collector.sampled(kFirst, "b", kSecond, std::vector{sample_of(2)}, kStart + seconds(6));
  collector.ended(kFirst, Rank{1});
  EXPECT_THAT(collector.newest(kStart + seconds(5), kNoon).rows, ElementsAre("0", "2"));
  EXPECT_THAT(collector.newest(kStart + seconds(6), kNoon).rows, ElementsAre("2"));

  collector.sampled(Attempt{1}, "a", kSecond, std::vector{sample_of(7)}, kStart + seconds(6));
  collector.sampled(kFirst, "a", kSecond, std::vector{sample_of(0)}, kStart + seconds(6));
  const SampleTable table = collector.newest(kStart + seconds(6), kNoon);
  EXPECT_THAT(table.rows, ElementsAre("7"));
  EXPECT_EQ(table.attempt, 1u);
}

TEST(RankCollector, KeepsAllRanksUpToALimit) {
  RankCollector collector;
  EXPECT_THAT(collector.kept(kStart, kNoon), IsEmpty());
  std::vector<RankSample> ranks;
  for (std::int32_t rank = 0; rank < 512; ++rank) ranks.push_back(sample_of(rank));
  collector.sampled(kFirst, "a", kSecond, ranks, kStart);

  const auto kept = collector.kept(kStart, kNoon);

  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_EQ(kept[0].kind, SampleKind::Ranks);
  EXPECT_THAT(kept[0].rows, SizeIs(512));
  EXPECT_EQ(kept[0].total, 0u);
}

TEST(RankCollector, KeepsSumsOfNodesAndTheWorstOfMoreRanks) {
  RankCollector collector;
  std::vector<RankSample> a, b;
  for (std::int32_t rank = 0; rank < 400; ++rank) {
    a.push_back(sample_of(rank, 50));
    a.back().process.resident_bytes = rank + 1;
  }
  for (std::int32_t rank = 400; rank < 600; ++rank) b.push_back(sample_of(rank, 50));
  a[17].progress.steps = 49;
  for (int i = 0; i < 16; ++i) b[static_cast<std::size_t>(i)].progress.quiet_us = 3 * kSecond;
  collector.sampled(kFirst, "a", kSecond, a, kStart);
  collector.sampled(kFirst, "b", kSecond, b, kStart);

  const auto kept = collector.kept(kStart, kNoon);

  ASSERT_THAT(kept, SizeIs(2));
  const SampleTable &sums = kept[0], &worst = kept[1];
  EXPECT_THAT(sums.rows, ElementsAre("a", "b"));
  EXPECT_THAT(sums.find("ranks")->numbers, ElementsAre(400, 200));
  EXPECT_THAT(sums.find("steps_min")->numbers, ElementsAre(49, 50));
  EXPECT_THAT(sums.find("quiet_s_max")->numbers, ElementsAre(0, 3));
  EXPECT_EQ(sums.number("rss_sum", 0), 400 * 401 / 2);
  EXPECT_EQ(sums.number("rss_p50", 0), 200);
  EXPECT_EQ(sums.number("rss_p99", 0), 396);
  EXPECT_EQ(sums.number("rss_max", 0), 400);
  EXPECT_TRUE(std::isnan(sums.number("cpu_sum", 0)));
  EXPECT_EQ(worst.total, 600u);
  std::vector<std::string> expected{"17"};
  for (int i = 0; i < 15; ++i) expected.push_back(std::to_string(400 + i));
  EXPECT_EQ(worst.rows, expected);
}

}  // namespace
}  // namespace train
