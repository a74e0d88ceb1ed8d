#include "launcher/cluster/reports/log_follower.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "launcher/cluster/reports/output_log.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr Attempt kAttempt{0};
constexpr Rank kRank{0};

/// A stream that its worker prints lines to, and somebody who follows it.
class LogFollowerTest : public ::testing::Test {
 protected:
  void print(std::string_view text) {
    std::string_view fresh;
    offset_ = log_->append(kAttempt, kRank, 1, offset_, text, &fresh).value();
    printed_ += text;
  }
  /// Print ten bytes: "line 0007\n".
  void print_line() { print(fmt::format("line {:04}\n", lines_++)); }
  void print_lines(int count) {
    for (int i = 0; i < count; ++i) print_line();
  }
  static std::string read_all(LogFollower& follower) {
    std::string text;
    for (LogText more = follower.read(); !more.text.empty(); more = follower.read())
      text += more.text;
    return text;
  }
  std::string path() const { return folder_.stdout_log(kAttempt, kRank); }
  void restart_launcher() { log_.emplace(folder_, kLimits); }

  static constexpr OutputLimits kLimits{.stream_bytes = 300};  // rotates at 100 bytes
  TempFolder temp_;
  const RunFolder folder_{temp_.path()};
  std::optional<OutputLog> log_{std::in_place, folder_, kLimits};
  std::uint64_t offset_ = 0;
  int lines_ = 0;
  std::string printed_;
};

TEST_F(LogFollowerTest, ReadsEachByteOnceWhileTheFilesAreRotated) {
  LogFollower follower(path());
  EXPECT_EQ(follower.read().text, "");
  std::string read;
  for (int i = 0; i < 100; ++i) {
    print_line();
    if (i % 7 == 0) read += read_all(follower);
  }
  read += read_all(follower);

  EXPECT_EQ(read, printed_);
  EXPECT_TRUE(std::filesystem::exists(path() + ".1"));
}

TEST_F(LogFollowerTest, SaysHowMuchIsNoLongerThere) {
  LogFollower follower(path());
  print_lines(5);
  EXPECT_EQ(read_all(follower), printed_);

  print_lines(40);  // 10 in each of the files, 5 in the newest: those from 10 to 29 are gone

  const std::string missing =
      "\n[trainrun: 200 bytes of output are missing here: the log had reached its limit]\n";
  EXPECT_EQ(read_all(follower), printed_.substr(50, 50) + missing + printed_.substr(300));
  LogFollower late(path());
  EXPECT_EQ(read_all(late), printed_.substr(0, 100) + missing + printed_.substr(300));
}

TEST_F(LogFollowerTest, SkipsWhatWasThereBefore) {
  print_lines(25);
  LogFollower follower(path());
  follower.skip_to_end();
  EXPECT_EQ(read_all(follower), "");

  print_line();

  EXPECT_EQ(read_all(follower), "line 0025\n");
}

TEST_F(LogFollowerTest, ContinuesWithTheNextLaunchersFiles) {
  LogFollower follower(path());
  print_lines(25);
  std::string read = read_all(follower);
  restart_launcher();
  print_lines(4);
  restart_launcher();
  read += read_all(follower);
  print_lines(10);

  EXPECT_EQ(read + read_all(follower), printed_);
}

TEST_F(LogFollowerTest, ALauncherThatDiedInTheMiddleOfARotationLosesNothing) {
  LogFollower follower(path());
  print_lines(20);
  log_.reset();
  std::filesystem::rename(path(), path() + ".1");  // and then it was killed
  std::string read = read_all(follower);
  restart_launcher();
  print_lines(3);

  EXPECT_EQ(read + read_all(follower), printed_);
}

TEST_F(LogFollowerTest, CopiesOfTheFilesAreAsGood) {
  TempFolder elsewhere;
  const std::string copy = elsewhere.path() + "/stdout.log";
  LogFollower follower(copy);
  std::string read;
  for (int i = 0; i < 6; ++i) {
    print_lines(8);
    for (const char* name : {"", ".1", ".head"}) {
      std::filesystem::remove(copy + name);
      if (std::filesystem::exists(path() + name))
        std::filesystem::copy_file(path() + name, copy + name);
    }
    read += read_all(follower);
  }

  EXPECT_EQ(read, printed_);
}

TEST_F(LogFollowerTest, WhatAWorkerPrintsIsNotTakenForAPosition) {
  LogFollower follower(path());
  print("[trainrun: continued from byte 4000000000]\n");
  EXPECT_EQ(read_all(follower), printed_);
  restart_launcher();
  print_lines(30);

  EXPECT_EQ(read_all(follower).substr(0, 10), "line 0000\n");
}

TEST_F(LogFollowerTest, IgnoresFilesThatGiveNoPosition) {
  print_lines(25);
  for (const char* text :
       {"", "[trainrun: continued from byte ", "[trainrun: continued from byte x]\n",
        "[trainrun: continued from byte 99999999999999999999]\n",
        "[trainrun: continued from byte 9223372036854775807]\n", "plain\n"}) {
    std::ofstream(path() + ".1") << text;
    LogFollower follower(path());
    EXPECT_EQ(read_all(follower).size(), 100u + 50u + 81u) << text;
  }
  std::ofstream(path() + ".1") << std::string(150, 'Q');
  LogFollower longer(path());
  EXPECT_EQ(read_all(longer).find('Q'), std::string::npos) << "its bytes have no place";
  for (const char* name : {".head", ".1"}) std::filesystem::remove(path() + name);
  std::filesystem::create_directory(path() + ".head");
  ASSERT_EQ(::mkfifo((path() + ".1").c_str(), 0600), 0);
  LogFollower follower(path());
  EXPECT_NE(read_all(follower), "") << "and does not hang";
}

}  // namespace
}  // namespace train
