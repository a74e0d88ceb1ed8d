#include "lib/observe/progress_csv.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "lib/base/file_descriptor.h"
#include "tests/unit/lib_observe/temporary_folder.h"

namespace train {
namespace {

constexpr std::int64_t kWall = 1'795'254'000'000'123;
const std::string kTime = "2026-11-21T09:40:00.000123Z";

ReportRecord report(std::uint64_t report_seq, Metrics metrics, std::uint32_t attempt = 0,
                    std::int32_t rank = 0) {
  return {.rank = rank,
          .attempt = attempt,
          .report_seq = report_seq,
          .wall_us = kWall,
          .has_checkpoint = report_seq == 2,
          .metrics = std::move(metrics)};
}

void write(ProgressCsv& csv, std::vector<ReportRecord> reports) {
  ASSERT_TRUE(csv.on_reports(reports).has_value());
  ASSERT_TRUE(csv.sync().has_value());
}

TEST(ProgressCsv, HasARowPerReportOfRankZero) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();

  write(csv, {report(1, {{"loss", 0.5}, {"ok", true}}), report(1, {{"loss", 9.0}}, 0, /*rank=*/1),
              report(2, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"ok", false}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,loss,ok\n"
            "0,1," +
                kTime +
                ",false,0.5,true\n"
                "0,2," +
                kTime + ",true,nan,false\n");
}

TEST(ProgressCsv, GrowsColumnsWithoutEverBeingRagged) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();
  write(csv, {report(1, {{"loss", 0.5}})});

  write(csv, {report(2, {{"val,acc", 0.75}}),
              report(3, {{"loss", 0.25}, {"note", std::string("say \"hi\",\nplease")}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,loss,\"val,acc\",note\n"
            "0,1," +
                kTime +
                ",false,0.5,,\n"
                "0,2," +
                kTime +
                ",true,,0.75,\n"
                "0,3," +
                kTime + ",false,0.25,,\"say \"\"hi\"\", please\"\n");
  EXPECT_EQ(content_of(path + ".tmp"), "");
}

TEST(ProgressCsv, GoesOnAfterAReopenDropsWhatItHoldsAndCutsATornRow) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  {
    auto csv = ProgressCsv::open(path).value();
    write(csv, {report(1, {{"a,b", 1.0}}), report(2, {{"a,b", 2.0}})});
  }
  append(path, "0,3,2026");

  auto csv = ProgressCsv::open(path).value();
  EXPECT_EQ(csv.last_attempt_and_report_seq(), (std::pair<std::uint32_t, std::uint64_t>(0, 2)));
  write(csv, {report(2, {{"a,b", 2.0}}), report(3, {{"a,b", 3.0}}),
              report(1, {{"a,b", 4.0}}, /*attempt=*/1)});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,\"a,b\"\n"
            "0,1," +
                kTime +
                ",false,1\n"
                "0,2," +
                kTime +
                ",true,2\n"
                "0,3," +
                kTime +
                ",false,3\n"
                "1,1," +
                kTime + ",false,4\n");
}

TEST(ProgressCsv, ValuesStayInTheirColumnsAfterAReopenAlthoughNamesAreWrittenAlike) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  put(path, "attempt,report_seq,time,checkpoint,a b,a b\n");  // of an earlier version
  auto csv = ProgressCsv::open(path).value();

  write(csv, {report(1, {{"a\tb", 1.0}, {"loss", 2.0}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,a b,a b,loss\n"
            "0,1," +
                kTime + ",false,1,,2\n");
}

TEST(ProgressCsv, OfMetricsThatAreWrittenAlikeTheFirstHasTheColumn) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();

  write(csv, {report(1, {{"a\tb", 1.0}, {"a\nb", 2.0}, {"loss", 3.0}})});
  write(csv, {report(2, {{"a\nb", 4.0}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,a b,loss\n"
            "0,1," +
                kTime +
                ",false,1,3\n"
                "0,2," +
                kTime + ",true,,\n");
  EXPECT_EQ(csv.warnings(),
            std::vector{path + " has no column for a metric, which metrics.jsonl holds"});
}

TEST(ProgressCsv, AMetricDoesNotDoubleOneOfTheFirstColumns) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto before = ProgressCsv::open(path).value();
  write(before, {report(1, {{"time", 1.5}, {"attempt", 7.0}})});

  auto csv = ProgressCsv::open(path).value();
  write(csv, {report(2, {{"time", 2.5}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,metrics.time,metrics.attempt\n"
            "0,1," +
                kTime +
                ",false,1.5,7\n"
                "0,2," +
                kTime + ",true,2.5,\n");
}

TEST(ProgressCsv, BeginsAgainIfSomeoneRemovesItsFile) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();
  write(csv, {report(1, {{"loss", 0.5}, {"old", 1.0}})});
  std::filesystem::remove(path);

  write(csv, {report(1, {{"loss", 0.5}, {"old", 1.0}}), report(2, {{"loss", 0.25}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,loss\n"
            "0,2," +
                kTime + ",true,0.25\n");
}

TEST(ProgressCsv, WaitsForNobodyAtAFifoThatHasReplacedItsFile) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::vector<ReportRecord> reports{report(1, {{"loss", 0.5}})};

  EXPECT_THAT(csv.on_reports(reports).error().describe(), ::testing::HasSubstr(path));
  const FileDescriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(csv.on_reports(reports).error().describe(), path + " is not a regular file");
}

// Such as the file with new columns, if it could be put in place but not be opened.
TEST(ProgressCsv, GoesOnInTheFileThatHasReplacedItsOwn) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();
  write(csv, {report(1, {{"loss", 0.5}})});
  const std::string longer =
      "attempt,report_seq,time,checkpoint,acc,loss\n0,1," + kTime + ",false,,0.5\n";
  put(path + ".tmp", longer);
  std::filesystem::rename(path + ".tmp", path);

  write(csv, {report(2, {{"loss", 0.25}, {"acc", 0.75}})});

  EXPECT_EQ(content_of(path), longer + "0,2," + kTime + ",true,0.75,0.25\n");
}

TEST(ProgressCsv, IsUtf8WhateverAProgramReports) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();

  write(csv, {report(1, {{"t\xe9mp", 1.0}, {"note", std::string("\xff\u00e9")}})});

  EXPECT_EQ(content_of(path),
            "attempt,report_seq,time,checkpoint,t\uFFFDmp,note\n"
            "0,1," +
                kTime + ",false,1,\uFFFD\u00e9\n");
}

TEST(ProgressCsv, LimitsItsColumns) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path).value();
  Metrics many;
  for (std::size_t i = 0; i < ProgressCsv::kColumnsMax + 3; ++i)
    many.emplace_back("m" + std::to_string(i), std::int64_t(i));

  write(csv, {report(1, many)});

  EXPECT_EQ(csv.columns_left_out(), 3u);
  EXPECT_EQ(csv.warnings(),
            std::vector{path + " has no column for 3 metrics, which metrics.jsonl holds"});
  const std::string content = content_of(path);
  const std::string header = content.substr(0, content.find('\n'));
  EXPECT_EQ(static_cast<std::size_t>(std::count(header.begin(), header.end(), ',')),
            3 + ProgressCsv::kColumnsMax);
}

/// A program that invents names would otherwise rewrite a large file for each of 512 columns.
TEST(ProgressCsv, LimitsWhatItWritesAnew) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  auto csv = ProgressCsv::open(path, /*rewritten_bytes_max=*/2'000).value();

  for (int i = 1; i <= 60; ++i)
    write(csv,
          {report(static_cast<std::uint64_t>(i), {{"m" + std::to_string(i), std::int64_t(i)}})});

  const std::string content = content_of(path);
  const std::string header = content.substr(0, content.find('\n'));
  EXPECT_TRUE(header.starts_with("attempt,report_seq,time,checkpoint,m1,m2,m3")) << header;
  EXPECT_LT(std::count(header.begin(), header.end(), ','), 20);
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 61);
  EXPECT_EQ(csv.columns_left_out(), 1u);
}

TEST(ProgressCsv, LeavesAFileThatIsNotItsOwnAlone) {
  TemporaryFolder folder;
  const std::string path = folder.file("progress.csv");
  put(path, "name,age\nx,1\n");

  const auto opened = ProgressCsv::open(path);

  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error().message,
            path + " does not begin with \"attempt,report_seq,time,checkpoint\"");
  EXPECT_EQ(content_of(path), "name,age\nx,1\n");
}

}  // namespace
}  // namespace train
