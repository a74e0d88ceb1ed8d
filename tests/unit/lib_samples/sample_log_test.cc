#include "lib/samples/sample_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "lib/samples/sample_reader.h"
#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SampleLogTest : public testing::Test {
 protected:
  std::vector<SampleTable> read(SampleKind kind = SampleKind::Ranks) {
    auto tables = read_samples(path, {.kind = kind, .tables_max = 1'000'000});
    EXPECT_TRUE(tables.has_value());
    return std::move(*tables);
  }
  std::vector<std::int64_t> spans() {
    std::vector<std::int64_t> spans;
    for (const SampleTable& table : read()) spans.push_back(table.span_ms);
    return spans;
  }
  TemporaryFolder folder;
  const std::string path = folder.file("samples.jsonl");
};

/// A table whose line takes some 7 bytes a rank.
SampleTable wide(int second, int ranks) {
  std::vector<std::string> rows;
  std::vector<double> values;
  for (int rank = 0; rank < ranks; ++rank) {
    rows.push_back(std::to_string(rank));
    values.push_back(100'000 + rank);
  }
  return ranks_at(second, rows, "pid", values);
}

TEST_F(SampleLogTest, AppendsALineEachSecondForTheOwnerOnly) {
  SampleLog log(path);
  for (int second = 1; second <= 3; ++second)
    ASSERT_TRUE(log.add(ranks_at(second, {"0"}, "cpu", {1.0 * second})).has_value());

  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(content_of(path), line_of(ranks_at(1, {"0"}, "cpu", {1})) +
                                  line_of(ranks_at(2, {"0"}, "cpu", {2})) +
                                  line_of(ranks_at(3, {"0"}, "cpu", {3})));
}

TEST_F(SampleLogTest, ContinuesAFileThatEndsWithATornLine) {
  const std::string torn = line_of(ranks_at(2, {"0"}, "cpu", {2})).substr(0, 60);
  put(path, line_of(ranks_at(1, {"0"}, "cpu", {1})) + torn);

  SampleLog log(path);
  ASSERT_TRUE(log.add(ranks_at(3, {"0"}, "cpu", {3})).has_value());

  EXPECT_EQ(content_of(path), line_of(ranks_at(1, {"0"}, "cpu", {1})) + torn + "\n" +
                                  line_of(ranks_at(3, {"0"}, "cpu", {3})));
  EXPECT_EQ(read().size(), 2u);
}

TEST_F(SampleLogTest, CoversTenSecondsOrAMinuteWhereLinesAreLong) {
  SampleLog log(path);
  for (int second = 1; second <= 21; ++second)  // 70 KB each
    ASSERT_TRUE(log.add(wide(second, 10'000)).has_value());
  EXPECT_THAT(spans(), ElementsAre(1000, 10'000, 10'000));

  std::filesystem::remove(path);
  SampleLog larger(path);
  for (int second = 1; second <= 61; ++second)  // 420 KB each
    ASSERT_TRUE(larger.add(wide(second, 60'000)).has_value());
  EXPECT_THAT(spans(), ElementsAre(1000, 60'000));
}

TEST_F(SampleLogTest, WritesWhatWaitsAtTheEndAndBeforeAnotherAttempt) {
  SampleLog log(path);
  for (int second = 1; second <= 5; ++second)
    ASSERT_TRUE(log.add(wide(second, 10'000)).has_value());
  SampleTable next = wide(6, 10'000);
  next.attempt = 1;
  ASSERT_TRUE(log.add(next).has_value());
  EXPECT_THAT(spans(), ElementsAre(1000, 4000));

  ASSERT_TRUE(log.flush().has_value());
  EXPECT_THAT(spans(), ElementsAre(1000, 4000, 1000));
}

TEST_F(SampleLogTest, GetsCoarserWithAgeAndKeepsAllOfTheTime) {
  SampleLog log(path);
  const int seconds = 4 * 3600;
  for (int second = 1; second <= seconds; ++second)
    ASSERT_TRUE(log.add(ranks_at(second, {"0"}, "cpu", {second <= 1800 ? 1.0 : 2.0})).has_value());

  const std::vector<SampleTable> tables = read();

  EXPECT_LT(tables.size(), 12'000u);
  EXPECT_EQ(tables.front().span_ms, 60'000);
  EXPECT_EQ(tables.front().number("cpu", 0), 1);
  EXPECT_EQ(tables.back().span_ms, 1000);
  EXPECT_EQ(tables.back().end_ms, kNoon + std::int64_t{1000} * seconds);
  std::int64_t covered = 0;
  for (const SampleTable& table : tables) covered += table.span_ms;
  EXPECT_EQ(covered, 1000 * seconds);
}

TEST_F(SampleLogTest, StaysBelowItsLimitByMergingTheOlderHalf) {
  constexpr std::uint64_t kBytesMax = 256u << 10;
  SampleLog log(path, kBytesMax);
  for (int second = 1; second <= 500; ++second) {  // 3.5 KB each, less than 10 minutes old
    ASSERT_TRUE(log.add(wide(second, 500)).has_value());
    ASSERT_LE(std::filesystem::file_size(path), kBytesMax);
  }

  const std::vector<SampleTable> tables = read();

  EXPECT_GT(tables.front().span_ms, 8000);
  EXPECT_EQ(tables.back().span_ms, 1000);
  EXPECT_EQ(tables.front().end_ms - tables.front().span_ms, kNoon);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST_F(SampleLogTest, LeavesOutTheOldestOfAttemptsThatCannotBeMerged) {
  constexpr std::uint64_t kBytesMax = 64u << 10;
  SampleLog log(path, kBytesMax);
  for (std::uint32_t attempt = 0; attempt < 100; ++attempt) {
    SampleTable table = wide(static_cast<int>(attempt), 500);
    table.attempt = attempt;
    ASSERT_TRUE(log.add(table).has_value());
    ASSERT_LE(std::filesystem::file_size(path), kBytesMax);
  }

  EXPECT_EQ(read().back().attempt, 99u);
  EXPECT_GT(read().size(), 5u);
}

TEST_F(SampleLogTest, SaysWhatCannotBeWrittenAndTriesAgain) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  SampleLog log(path);
  EXPECT_EQ(log.add(ranks_at(1, {"0"}, "cpu", {1})).error().message,
            path + " is not a regular file");

  std::filesystem::remove(path);
  EXPECT_TRUE(log.add(ranks_at(2, {"0"}, "cpu", {2})).has_value());
  EXPECT_EQ(read().size(), 1u);
}

TEST_F(SampleLogTest, FollowsNoLinkAndWritesNoOtherFile) {
  put(folder.file("other"), "x");
  std::filesystem::create_symlink(folder.file("other"), path);
  std::filesystem::create_symlink(folder.file("other"), path + ".now.new");

  SampleLog log(path);
  EXPECT_FALSE(log.add(ranks_at(1, {"0"}, "cpu", {1})).has_value());
  EXPECT_TRUE(replace_unsynced(path + ".now", "y").has_value());

  EXPECT_EQ(content_of(folder.file("other")), "x");
  EXPECT_EQ(content_of(path + ".now"), "y");
}

}  // namespace
}  // namespace train
