#include "lib/observe/log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/unit/lib_observe/temporary_folder.h"

namespace train {
namespace {

const std::chrono::system_clock::time_point kWall{std::chrono::microseconds(1'795'254'000'000'123)};

TEST(Log, FormatsLogfmt) {
  EXPECT_EQ(
      format_log_line(
          LogFormat::Logfmt, kWall, LogLevel::Info, {"traind", "vit cifar", "gpu-1"},
          "lease granted",
          {{"workers", 4}, {"path", "/a"}, {"late", true}, {"rate", 0.5}, {"text", "a\x1b=\"b\""}}),
      "ts=2026-11-21T09:40:00.000123Z level=info component=traind node=gpu-1 run=\"vit cifar\" "
      "msg=\"lease granted\" workers=4 path=/a late=true rate=0.5 text=\"a\\u001b=\\\"b\\\"\"");
}

TEST(Log, FormatsJsonLines) {
  EXPECT_EQ(
      format_log_line(LogFormat::Json, kWall, LogLevel::Error, {"supervisor", "", ""}, "gone\n",
                      {{"rank", 3}}),
      R"({"ts":"2026-11-21T09:40:00.000123Z","level":"error","component":"supervisor","msg":"gone\n","rank":3})");
}

TEST(Log, WritesFromItsLevelOn) {
  TemporaryFolder folder;
  Log::Options options{.level = LogLevel::Warn, .path = folder.file("log")};
  const Log log = Log::open(options, {"launcher", "vit", ""}).value();

  log.info("not this");
  log.warn("this", {{"n", 1}});
  log.as({"driver", "vit", "b"}).error("and this");

  const std::string content = content_of(options.path);
  const auto without_time = [](std::string line) { return line.substr(line.find(" level")); };
  const auto newline = content.find('\n');
  EXPECT_EQ(without_time(content.substr(0, newline)),
            " level=warn component=launcher run=vit msg=this n=1");
  EXPECT_EQ(without_time(content.substr(newline + 1)),
            " level=error component=driver node=b run=vit msg=\"and this\"\n");
  EXPECT_FALSE(log.enabled(LogLevel::Info));
  EXPECT_FALSE(Log().enabled(LogLevel::Error));
}

TEST(Log, WritesToARegularFileOnly) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);  // no reader: opening would block
  std::filesystem::create_symlink(folder.file("elsewhere"), folder.file("link"));
  for (const std::string name : {"pipe", "link"}) {
    const auto log = Log::open({.path = folder.file(name), .in_background = true}, {});
    ASSERT_TRUE(log.has_error()) << name;
    EXPECT_EQ(log.error().message,
              "opening the log " + folder.file(name) + ": it exists and is not a regular file");
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("elsewhere")));
}

TEST(Log, InTheBackgroundWritesAllThatItHasRoomFor) {
  TemporaryFolder folder;
  {
    const Log log = Log::open({.path = folder.file("log"), .in_background = true}, {}).value();
    for (int i = 0; i < 2000; ++i) log.info("a line", {{"i", i}});
  }
  const std::string content = content_of(folder.file("log"));
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 2000);
}

TEST(Log, InTheBackgroundDropsWhatADiskIsTooSlowForAndSaysHowMuch) {
  TemporaryFolder folder;
  {  // renames up to 200 files every line or two
    const Log log = Log::open({.path = folder.file("log"),
                               .file_bytes_max = 200,
                               .files_max = 200,
                               .in_background = true},
                              {"train-run", "vit", ""})
                        .value();
    for (int i = 0; i < 10'000; ++i) log.info("a line", {{"i", i}});
  }
  const std::string content = content_of(folder.file("log"));
  const std::string counted =
      "level=warn component=train-run run=vit msg=\"lines were dropped: the disk was slower than "
      "the log\" lines=";
  const auto at = content.find(counted);
  ASSERT_NE(at, content.npos) << content;
  EXPECT_GT(std::stoi(content.substr(at + counted.size())), 0);
}

TEST(Log, WhatTheDiskDoesNotTakeIsLostWithoutAWordOnTheTerminal) {
  TemporaryFolder folder;
  const Log log = Log::open({.path = folder.file("log")}, {}).value();
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  testing::internal::CaptureStderr();

  for (int i = 0; i < 100; ++i) log.info("a line of the log", {{"i", i}});

  const std::string said = testing::internal::GetCapturedStderr();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(said, "");
  EXPECT_LE(std::filesystem::file_size(folder.file("log")), 1000u);
}

TEST(Log, KeepsFilesBounded) {
  TemporaryFolder folder;
  const Log log =
      Log::open({.path = folder.file("log"), .file_bytes_max = 2000, .files_max = 3}, {}).value();

  for (int i = 0; i < 200; ++i) log.info("a line of the log", {{"i", i}});

  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    EXPECT_LE(entry.file_size(), 2000u);
  }
  EXPECT_EQ(files, 3u);
}

TEST(Log, ReadsLevels) {
  EXPECT_EQ(parse_log_level("warning").value(), LogLevel::Warn);
  EXPECT_EQ(to_string(LogLevel::Warn), "warn");
  EXPECT_EQ(parse_log_level("loud").error().describe(),
            "unknown log level \"loud\" (use debug, info, warn, error or off)");
}

}  // namespace
}  // namespace train
