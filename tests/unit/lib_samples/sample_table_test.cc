#include "lib/samples/sample_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(SampleTable, MergesRatesByTheirMeanPeaksByTheirMaximumAndCountsByTheNewest) {
  SampleTable first = ranks_at(1, {"0"}, "cpu", {1.0});
  add(first, "rss", std::vector<double>{500});
  add(first, "steps", std::vector<double>{10});
  SampleTable second = ranks_at(4, {"0"}, "cpu", {2.0});
  second.span_ms = 3000;
  add(second, "rss", std::vector<double>{400});
  add(second, "steps", std::vector<double>{14});

  const SampleTable merged = merge_samples(std::vector{first, second});

  EXPECT_EQ(merged.end_ms, kNoon + 4000);
  EXPECT_EQ(merged.span_ms, 4000);
  EXPECT_THAT(merged.number("cpu", 0), DoubleNear(1.75, 1e-9));  // 1 s and 3 s
  EXPECT_EQ(merged.number("rss", 0), 500);
  EXPECT_EQ(merged.number("steps", 0), 14);
}

TEST(SampleTable, MergesTheRanksOfAllTablesInNumericalOrder) {
  const SampleTable first = ranks_at(1, {"2", "10"}, "cpu", {0.2, 1.0});
  const SampleTable second = ranks_at(2, {"3", "10"}, "cpu", {0.3, kNone});

  const SampleTable merged = merge_samples(std::vector{first, second});

  EXPECT_THAT(merged.rows, ElementsAre("2", "3", "10"));
  EXPECT_THAT(merged.find("cpu")->numbers, ElementsAre(0.2, 0.3, 1.0));
}

TEST(SampleTable, MergesTextsToTheNewestAlsoIfThatIsEmpty) {
  SampleTable first = ranks_at(1, {"0"}, "cpu", {1.0});
  add(first, "phase", {"data"});
  add(first, "waits_in", {"nfs_wait"});
  SampleTable second = ranks_at(2, {"0"}, "cpu", {1.0});
  add(second, "phase", {"step"});

  const SampleTable merged = merge_samples(std::vector{first, second});

  EXPECT_EQ(merged.text("phase", 0), "step");
  EXPECT_EQ(merged.text("waits_in", 0), "");
}

TEST(SampleTable, KeepsTheRanksThatWereMostOftenAmongTheWorst) {
  std::vector<SampleTable> tables;
  for (int second = 0; second < 3; ++second) {
    std::vector<std::string> rows{"7"};
    for (int i = 0; i < 15; ++i) rows.push_back(std::to_string(100 * (second + 1) + i));
    tables.push_back(ranks_at(second, rows, "steps", std::vector<double>(16, 1)));
    tables.back().total = 600;
  }

  const SampleTable merged = merge_samples(tables);

  EXPECT_EQ(merged.rows.size(), kWorstRanks);
  EXPECT_EQ(merged.rows.front(), "7");
  EXPECT_EQ(merged.total, 600u);
}

TEST(SampleTable, NamesEachFieldOnce) {
  for (const SampleKind kind : {SampleKind::Ranks, SampleKind::RankSums, SampleKind::Nodes,
                                SampleKind::Gpus, SampleKind::Data}) {
    for (const SampleField& field : sample_fields(kind))
      EXPECT_EQ(find_sample_field(kind, field.name), &field) << field.name;
    EXPECT_EQ(parse_sample_kind(to_string(kind)), kind);
    for (const char* taken : {"t", "span", "attempt", "kind", "total", "rows"})  // of a line
      EXPECT_EQ(find_sample_field(kind, taken), nullptr) << taken;
  }
}

}  // namespace
}  // namespace train
