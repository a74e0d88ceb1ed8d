#include "lib/samples/sample_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::string cpu_line(int second, double cpu) {
  return line_of(ranks_at(second, {"0"}, "cpu", {cpu}));
}

std::vector<std::int64_t> seconds_of(const std::vector<SampleTable>& tables) {
  std::vector<std::int64_t> ends;
  for (const SampleTable& table : tables) ends.push_back((table.end_ms - kNoon) / 1000);
  return ends;
}

TEST(SampleReader, ReturnsTheTablesOfTheTimeThatIsAskedFor) {
  TemporaryFolder folder;
  std::string text;
  for (int second = 1; second <= 5; ++second) text += cpu_line(second, second);
  put(folder.file("samples.jsonl"), text);

  const auto tables =
      read_samples(folder.file("samples.jsonl"), {.from_ms = kNoon + 2000, .to_ms = kNoon + 4000});

  ASSERT_TRUE(tables.has_value());
  EXPECT_THAT(seconds_of(*tables), ElementsAre(3, 4));
}

TEST(SampleReader, ReturnsOnlyTheFieldsAndRowsThatAreAskedFor) {
  TemporaryFolder folder;
  SampleTable table = ranks_at(1, {"0", "1", "2", "3"}, "cpu", {1, 2, 3, 4});
  add(table, "phase", {"step", "data", "own", "step"});
  add(table, "rss", {10, 20, 30, 40});
  SampleTable other = table;
  other.kind = SampleKind::Nodes;
  other.columns.clear();
  put(folder.file("s"), line_of(other) + line_of(table));

  const auto tables =
      read_samples(folder.file("s"), {.fields = {"rss", "phase"}, .rows = {"1", "3", "9"}});

  ASSERT_TRUE(tables.has_value());
  ASSERT_THAT(*tables, SizeIs(1));
  EXPECT_THAT(tables->front().rows, ElementsAre("1", "3"));
  EXPECT_THAT(tables->front().find("rss")->numbers, ElementsAre(20, 40));
  EXPECT_THAT(tables->front().find("phase")->texts, ElementsAre("data", "step"));
  EXPECT_EQ(tables->front().find("cpu"), nullptr);
}

TEST(SampleReader, MergesNeighboursUntilThereAreFewEnough) {
  TemporaryFolder folder;
  std::string text;
  for (int second = 1; second <= 1000; ++second) text += cpu_line(second, second <= 500 ? 1 : 3);
  put(folder.file("s"), text);

  const auto tables = read_samples(folder.file("s"), {.tables_max = 10});

  ASSERT_TRUE(tables.has_value());
  EXPECT_LE(tables->size(), 10u);
  EXPECT_GE(tables->size(), 4u);
  EXPECT_EQ(tables->front().number("cpu", 0), 1);
  EXPECT_EQ(tables->back().number("cpu", 0), 3);
  EXPECT_EQ(tables->back().end_ms, kNoon + 1'000'000);
  EXPECT_EQ(tables->front().end_ms - tables->front().span_ms, kNoon);
}

TEST(SampleReader, DoesNotMergeAttemptsAndReturnsOneIfAsked) {
  TemporaryFolder folder;
  std::string text;
  for (int second = 1; second <= 40; ++second) {
    SampleTable table = ranks_at(second, {"0"}, "cpu", {1});
    table.attempt = second <= 20 ? 0 : 1;
    text += line_of(table);
  }
  put(folder.file("s"), text);

  const auto all = read_samples(folder.file("s"), {.tables_max = 4});
  const auto second = read_samples(folder.file("s"), {.attempt = 1});

  ASSERT_TRUE(all.has_value() && second.has_value());
  EXPECT_EQ(all->front().attempt, 0u);
  EXPECT_EQ(all->back().attempt, 1u);
  EXPECT_THAT(*second, SizeIs(20));
}

TEST(SampleReader, PassesOverTornLongAndForeignLines) {
  TemporaryFolder folder;
  const std::string whole = cpu_line(1, 1);
  put(folder.file("s"), "\n{}\n" + whole.substr(0, whole.size() / 2) + "\n" +
                            std::string(kSampleLineBytesMax + 1, 'x') + "\n" + cpu_line(2, 2) +
                            whole.substr(0, whole.size() - 1));

  const auto tables = read_samples(folder.file("s"), {});

  ASSERT_TRUE(tables.has_value());
  EXPECT_THAT(seconds_of(*tables), ElementsAre(2));
}

TEST(SampleReader, BoundsWhatAHostileFileCosts) {
  TemporaryFolder folder;
  std::string text;  // of other attempts each, so that nothing can be merged
  for (int attempt = 0; attempt < 200; ++attempt)
    text += R"({"t":1800000000000,"span":0,"attempt":)" + std::to_string(attempt) +
            R"(,"kind":"ranks","rows":"0-65535","cpu":1,"rss":2})" + "\n";
  put(folder.file("s"), text);

  const auto tables = read_samples(folder.file("s"), {});

  ASSERT_TRUE(tables.has_value());
  EXPECT_LE(tables->size(), 43u);  // 8 Mi values
  EXPECT_EQ(tables->back().attempt, 199u);
}

TEST(SampleReader, FindsNothingWithoutAFileAndSaysWhatIsNoFile) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);

  EXPECT_THAT(read_samples(folder.file("none"), {}).value(), IsEmpty());
  EXPECT_EQ(read_samples(folder.file("fifo"), {}).error().message,
            folder.file("fifo") + " is not a regular file");
}

TEST(SampleReader, ReturnsTheNewestTableOfEachKind) {
  TemporaryFolder folder;
  SampleTable nodes{.kind = SampleKind::Nodes, .end_ms = kNoon, .span_ms = 2000, .rows = {"a"}};
  add(nodes, "load", std::vector<double>{0.5});
  put(folder.file("now"), cpu_line(1, 1) + line_of(nodes) + cpu_line(2, 2));

  const auto newest = read_newest_samples(folder.file("now"));

  ASSERT_TRUE(newest.has_value());
  ASSERT_THAT(*newest, SizeIs(2));
  EXPECT_EQ((*newest)[0].number("load", 0), 0.5);
  EXPECT_EQ((*newest)[1].number("cpu", 0), 2);
}

}  // namespace
}  // namespace train
