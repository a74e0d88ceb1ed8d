#include "lib/observe/metrics_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "tests/unit/lib_observe/temporary_folder.h"

namespace train {
namespace {

constexpr std::int64_t kWall = 1'795'254'000'000'123;  // 2026-11-21T09:40:00.000123Z

ReportRecord report(std::int32_t rank, std::uint64_t report_seq, Metrics metrics,
                    std::uint32_t attempt = 0) {
  return {.rank = rank,
          .attempt = attempt,
          .report_seq = report_seq,
          .wall_us = kWall,
          .has_checkpoint = false,
          .metrics = std::move(metrics)};
}

std::string line(int rank, int attempt, int report_seq, const std::string& metrics) {
  return "{\"rank\":" + std::to_string(rank) + ",\"attempt\":" + std::to_string(attempt) +
         ",\"report_seq\":" + std::to_string(report_seq) +
         ",\"time\":\"2026-11-21T09:40:00.000123Z\",\"checkpoint\":false,\"metrics\":" + metrics +
         "}\n";
}

void write(MetricsLog& log, std::vector<ReportRecord> reports) {
  ASSERT_TRUE(log.on_reports(reports).has_value());
  ASSERT_TRUE(log.sync().has_value());
}

TEST(MetricsLog, WritesALinePerRankAndReport) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  auto log = MetricsLog::open(path).value();
  auto with_checkpoint = report(0, 2, {{"ok", true}, {"note", std::string("a\"b")}});
  with_checkpoint.has_checkpoint = true;
  with_checkpoint.wall_us = kWall + 1'500'000;

  write(log, {report(0, 1, {{"loss", 0.25}, {"epoch", std::int64_t{3}}}),
              report(1, 1, {{"loss", std::numeric_limits<double>::quiet_NaN()}}), with_checkpoint});

  EXPECT_EQ(
      content_of(path),
      line(0, 0, 1, R"({"loss":0.25,"epoch":3})") + line(1, 0, 1, R"({"loss":null})") +
          R"({"rank":0,"attempt":0,"report_seq":2,"time":"2026-11-21T09:40:01.500123Z","checkpoint":true,)"
          R"("metrics":{"ok":true,"note":"a\"b"}})"
          "\n");
}

TEST(MetricsLog, DropsWhatItHoldsWhenItComesAgainAlsoAfterAReopen) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  {
    auto log = MetricsLog::open(path).value();
    write(log, {report(0, 1, {}), report(0, 2, {}), report(1, 1, {}), report(0, 2, {})});
    EXPECT_EQ(log.last_report_seq(0, 0), 2u);
  }

  auto log = MetricsLog::open(path).value();
  EXPECT_EQ(log.held(), (std::vector<HeldReports>{{0, 0, 2}, {0, 1, 1}}));
  write(log,
        {report(0, 2, {}), report(0, 3, {}), report(1, 1, {}), report(0, 1, {}, /*attempt=*/1)});

  EXPECT_EQ(content_of(path), line(0, 0, 1, "{}") + line(0, 0, 2, "{}") + line(1, 0, 1, "{}") +
                                  line(0, 0, 3, "{}") + line(0, 1, 1, "{}"));
  EXPECT_EQ(log.last_report_seq(1, 0), 1u);
  EXPECT_EQ(log.last_report_seq(2, 0), 0u);
}

TEST(MetricsLog, CutsOffATornEndWhereverTheCutFell) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  const std::string first = line(0, 0, 1, R"({"loss":0.5})");
  const std::string second = line(0, 0, 2, R"({"loss":0.25})");
  for (std::size_t kept = 0; kept < second.size(); ++kept) {
    put(path, first + second.substr(0, kept));

    auto log = MetricsLog::open(path).value();
    EXPECT_EQ(log.torn_bytes(), kept);
    write(log, {report(0, 1, {{"loss", 0.5}}), report(0, 2, {{"loss", 0.25}})});

    ASSERT_EQ(content_of(path), first + second) << "cut after " << kept << " bytes";
  }
}

TEST(MetricsLog, CutsOffZerosThatAPowerCutLeft) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  put(path, line(0, 0, 1, "{}") + std::string(300, '\0') + "tail\n" + line(0, 0, 9, "{}"));

  auto log = MetricsLog::open(path).value();

  EXPECT_EQ(content_of(path), line(0, 0, 1, "{}"));
  EXPECT_EQ(log.last_report_seq(0, 0), 1u);
}

TEST(MetricsLog, NamesALineThatIsNotItsOwn) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  put(path, line(0, 0, 1, "{}") + "hello\n" + line(0, 0, 2, "{}"));

  const auto opened = MetricsLog::open(path);

  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error().code, Errc::Corrupt);
  EXPECT_EQ(opened.error().message, path + ":2 is not a line of the report log");
}

TEST(MetricsLog, SaysWhyItCannotOpen) {
  const auto opened = MetricsLog::open("/nowhere/metrics.jsonl");

  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error(),
            (Error{Errc::NotFound, "opening /nowhere/metrics.jsonl: No such file or directory"}));
}

/// While it lives, writes beyond `bytes` of a file fail with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_{};
};

TEST(MetricsLog, GoesOnAtTheVeryByteWhereTheDiskWasFull) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  auto log = MetricsLog::open(path).value();
  const std::vector<ReportRecord> reports = {report(0, 1, {{"loss", 0.5}})};
  {
    FileSizeLimit limit(40);
    ASSERT_TRUE(log.on_reports(reports).has_value());
    ASSERT_TRUE(log.sync().has_error());
    EXPECT_EQ(content_of(path), line(0, 0, 1, R"({"loss":0.5})").substr(0, 40));
  }

  ASSERT_TRUE(log.sync().has_value());

  EXPECT_EQ(content_of(path), line(0, 0, 1, R"({"loss":0.5})"));
}

TEST(MetricsLog, TakesNoMoreOnceItsBufferAndTheDiskAreFull) {
  TemporaryFolder folder;
  auto log = MetricsLog::open(folder.file("metrics.jsonl")).value();
  FileSizeLimit limit(1000);
  std::vector<ReportRecord> reports = {
      report(0, 1, {{"text", std::string(MetricsLog::kBufferBytesMax, 'x')}})};
  ASSERT_TRUE(log.on_reports(reports).has_value());

  reports = {report(0, 2, {})};
  const auto refused = log.on_reports(reports);

  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, Errc::Io);
  EXPECT_EQ(log.last_report_seq(0, 0), 1u);  // the second was refused: it may come again
}

TEST(ReadMetricsLog, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  std::vector<ReportRecord> written = {report(0, 1,
                                              {{"loss", 0.1},
                                               {"epoch", std::int64_t{-3}},
                                               {"ok", false},
                                               {"note", std::string("\x1b\u00e9\n")}}),
                                       report(2, 1, {{"whole", 1.0}}, /*attempt=*/4)};
  written[1].has_checkpoint = true;
  auto log = MetricsLog::open(path).value();
  write(log, written);
  append(path, "{\"rank\":0,\"att");  // another report is being written

  std::vector<ReportRecord> read;
  ASSERT_TRUE(read_metrics_log(path, [&](ReportRecord&& one) {
                read.push_back(std::move(one));
                return true;
              }).has_value());

  EXPECT_EQ(read, written);
}

TEST(ReadMetricsLog, ReadsNullAsNaNAndStopsWhereAsked) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  put(path, line(0, 0, 1, R"({"loss":null})") + line(0, 0, 2, "{}") + line(0, 0, 3, "{}"));

  std::vector<ReportRecord> read;
  ASSERT_TRUE(read_metrics_log(path, [&](ReportRecord&& one) {
                read.push_back(std::move(one));
                return read.size() < 2;
              }).has_value());

  ASSERT_EQ(read.size(), 2u);
  EXPECT_TRUE(std::isnan(std::get<double>(read[0].metrics.at(0).second)));
  EXPECT_TRUE(
      read_metrics_log(folder.file("none"), [](ReportRecord&&) { return true; }).has_value());
}

/// A worker's own number. A log that once wrote it as a negative one was "foreign" ever after.
TEST(MetricsLog, ReadsBackTheLargestReportSeq) {
  TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
  {
    auto log = MetricsLog::open(path).value();
    write(log, {report(0, kLargest, {{"loss", 0.5}})});
  }

  auto again = MetricsLog::open(path);
  ASSERT_FALSE(again.has_error()) << again.error().describe();
  EXPECT_EQ(again->last_report_seq(0, 0), kLargest);
  std::vector<std::uint64_t> read;
  ASSERT_TRUE(read_metrics_log(path, [&](ReportRecord&& one) {
    read.push_back(one.report_seq);
    return true;
  }));
  EXPECT_EQ(read, std::vector<std::uint64_t>{kLargest});
}

}  // namespace
}  // namespace train
