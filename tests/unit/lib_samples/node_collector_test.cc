#include "lib/samples/node_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr TimePoint kStart{seconds(1000)};
constexpr std::int64_t kSecond = 1'000'000;

std::vector<SampleTable> newest(const NodeCollector& collector, TimePoint now = kStart) {
  return collector.newest(now, kNoon, 2000, 0, [](const std::string&) {
    return std::vector<std::int32_t>{4, 5};
  });
}

TEST(NodeCollector, MakesRatesOfWhatWasCountedBetweenTwoSamples) {
  NodeCollector collector;
  collector.sampled(
      "a",
      {.taken_us = kSecond,
       .node = {.cpus = 4, .cpu_us = 7 * kSecond, .read_bytes = 100, .cpu_pressure_us = 0}},
      kStart);
  collector.sampled("a",
                    {.taken_us = 3 * kSecond,
                     .node = {.cpus = 4,
                              .cpu_us = 12 * kSecond,
                              .load_hundredths = 125,
                              .memory_bytes = 1 << 20,
                              .memory_used_bytes = 1 << 10,
                              .read_bytes = 300,
                              .sent_bytes = 9,
                              .cpu_pressure_us = kSecond / 2}},
                    kStart);

  const auto tables = newest(collector);

  ASSERT_THAT(tables, SizeIs(1));
  EXPECT_EQ(line_of(tables[0]),
            R"({"t":1800000000000,"span":2000,"attempt":0,"kind":"nodes","rows":["a"],"cpus":4,)"
            R"("cpu":2.5,"load":1.25,"memory":1048576,"memory_used":1024,"read_per_s":100,)"
            R"("cpu_pressure":0.25})"
            "\n");
}

TEST(NodeCollector, KnowsNoRateAfterARestartOfTheNodeOrALongTime) {
  NodeCollector collector;
  collector.sampled("a", {.taken_us = 9 * kSecond, .node = {.cpu_us = 500}}, kStart);
  collector.sampled("a", {.taken_us = kSecond, .node = {.cpu_us = 600}}, kStart);
  EXPECT_TRUE(std::isnan(newest(collector)[0].number("cpu", 0)));
  collector.sampled("a", {.taken_us = 90 * kSecond, .node = {.cpu_us = 700}}, kStart);
  EXPECT_TRUE(std::isnan(newest(collector)[0].number("cpu", 0)));
  collector.sampled("a", {.taken_us = 91 * kSecond, .node = {.cpu_us = 10}}, kStart);
  EXPECT_TRUE(std::isnan(newest(collector)[0].number("cpu", 0)));
}

TEST(NodeCollector, NamesTheRanksOfEachGpu) {
  NodeCollector collector;
  collector.sampled("a",
                    {.gpus = {{.gpu = "0", .name = "H100", .use_percent = 50, .power_mw = 1500},
                              {.gpu = "1", .state = "lost"},
                              {.gpu = "2"}},
                     .granted = {"2", "0"}},
                    kStart);

  const auto tables = newest(collector);

  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_EQ(
      line_of(tables[1]),
      R"({"t":1800000000000,"span":2000,"attempt":0,"kind":"gpus","rows":["a/0","a/1","a/2"],)"
      R"("name":["H100","",""],"state":["ok","lost","ok"],"use":[0.5,null,null],)"
      R"("power_w":[1.5,null,null],"xids":0,"ranks":["5","","4"]})"
      "\n");
}

TEST(NodeCollector, SharesGpusAmongRanksAndRanksAmongGpus) {
  NodeCollector collector;
  const auto ranks_of = [&](std::vector<std::string> granted, std::vector<std::int32_t> ranks) {
    collector.sampled("a", {.granted = granted}, kStart);
    std::vector<std::string> all;
    for (const std::string& gpu : granted) all.push_back(collector.ranks_of_gpu("a", gpu, ranks));
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(ranks_of({"0", "1"}, {0, 1, 2, 3}), (Texts{"0-1", "2-3"}));
  EXPECT_EQ(ranks_of({"0", "1", "2", "3"}, {6, 7}), (Texts{"6", "6", "7", "7"}));
  EXPECT_EQ(ranks_of({"0"}, {}), (Texts{""}));
  EXPECT_EQ(collector.ranks_of_gpu("b", "0", std::vector<std::int32_t>{1}), "");
}

TEST(NodeCollector, SharesTheGpusOfARoleAmongItsRanks) {
  NodeCollector collector;
  collector.sampled("a", {.granted = {"4", "5", "6", "7"}}, kStart);
  const auto of = [&](const char* gpu, std::vector<std::int32_t> ranks, GrantedGpus gpus) {
    return collector.ranks_of_gpu("a", gpu, ranks, gpus);
  };
  EXPECT_EQ(of("4", {0, 1}, {0, 1}), "0-1");
  EXPECT_EQ(of("5", {0, 1}, {0, 1}), "");
  EXPECT_EQ(of("5", {8, 9, 10}, {1, 3}), "8");
  EXPECT_EQ(of("7", {8, 9, 10}, {1, 3}), "10");
  EXPECT_EQ(of("7", {8}, {4, 2}), "");  // more than the node has granted
  EXPECT_EQ(of("7", {8}, {3, SIZE_MAX}), "8");
  EXPECT_EQ(of("4", {11}, {0, 0}), "");  // a role without GPUs
}

TEST(NodeCollector, BringsHostileValuesIntoTheirRanges) {
  NodeCollector collector;
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::vector<GpuSample> gpus(1000, {.gpu = std::string(10'000, 'x'), .xids = kMin});
  collector.sampled("a", {.taken_us = kMin, .node = {.cpu_us = kMin, .read_bytes = kMax}}, kStart);
  collector.sampled(
      "a", {.taken_us = kMax, .node = {.cpu_us = kMax, .read_bytes = kMin}, .gpus = gpus}, kStart);

  const auto tables = newest(collector);

  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_THAT(tables[1].rows, SizeIs(kNodeGpusMax));
  EXPECT_LT(tables[1].rows[0].size(), 200u);
}

TEST(NodeCollector, ForgetsNodesThatAreSilent) {
  NodeCollector collector;
  collector.sampled("a", {.node = {.cpus = 1}}, kStart);
  EXPECT_THAT(newest(collector, kStart + seconds(10)), SizeIs(1));
  EXPECT_THAT(newest(collector, kStart + seconds(11)), IsEmpty());
}

}  // namespace
}  // namespace train
