#include "launcher/cluster/reports/run_logs.h"

#include <fmt/format.h>
#include <malloc.h>

#include <filesystem>
#include <random>

#include "launcher/cluster/reports/output_log.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class WallClock final : public Clock {
 public:
  TimePoint now() const override { return {}; }
  std::chrono::system_clock::time_point wall() const override { return wall_; }
  void set(int milliseconds_since) {
    wall_ = std::chrono::system_clock::time_point(std::chrono::hours(500'000)) +
            milliseconds(milliseconds_since);
  }

 private:
  std::chrono::system_clock::time_point wall_{};
};

/// A run whose workers print, and somebody who reads it.
class RunLogsTest : public ::testing::Test {
 protected:
  void print(int ms, std::int32_t rank, std::string_view text, int stream = 1,
             std::uint32_t attempt = 0) {
    clock_.set(ms);
    std::string_view fresh;
    std::uint64_t& offset = offsets_[{attempt, rank, stream}];
    offset = log_->append(Attempt{attempt}, Rank{rank}, stream, offset, text, &fresh).value();
  }
  void restart_launcher(bool with_times = true) {
    log_.emplace(folder_, limits_, with_times ? &clock_ : nullptr);
  }
  static RunLogs::Sink into(std::string& out) {
    return [&out](LogLine&& line) { out += fmt::format("{}:{}\n", line.rank, line.text); };
  }
  std::string merged(LogSelection selection = {}) {
    RunLogs logs(folder_, std::move(selection));
    logs.find();
    return merged(logs, true);
  }
  static std::string merged(RunLogs& logs, bool to_the_end) {
    std::string out;
    logs.find();
    logs.merge(to_the_end, into(out));
    return out;
  }

  TempFolder temp_;
  const RunFolder folder_{temp_.path()};
  WallClock clock_;
  OutputLimits limits_;
  std::optional<OutputLog> log_{std::in_place, folder_, limits_, &clock_};
  std::map<std::tuple<std::uint32_t, std::int32_t, int>, std::uint64_t> offsets_;
};

TEST_F(RunLogsTest, GivesRankByRankOrInOrderOfTime) {
  print(0, 1, "b\n");
  print(10, 0, "a\nhal");
  print(20, 1, "c\n", 2);
  print(30, 0, "f\n");
  print(40, 1, "end");

  std::string by_rank;
  RunLogs logs(folder_, {});
  logs.find();
  EXPECT_TRUE(logs.read(true, into(by_rank), [&] { by_rank += "-\n"; }));
  std::string more;
  EXPECT_FALSE(logs.read(true, into(more), [] {})) << "there is nothing more: " << more;
  EXPECT_EQ(by_rank, "0:a\n0:half\n-\n1:b\n1:end\n-\n1:c\n-\n");
  EXPECT_EQ(merged(), "1:b\n0:a\n1:c\n0:half\n1:end\n");
  EXPECT_TRUE(logs.take_untimed().empty());
}

TEST_F(RunLogsTest, GivesOnlyWhatIsSelected) {
  for (const std::int32_t rank : {0, 1, 2, 3}) {
    print(10 * rank, rank, "out\n");
    print(10 * rank + 5, rank, "err\n", 2);
  }
  print(100, 0, "later\n", 1, 1);

  EXPECT_EQ(merged(), "0:later\n");
  EXPECT_EQ(merged({.ranks = RankSet::parse("1-2").value(), .stream = 2, .attempt = 0}),
            "1:err\n2:err\n");
  EXPECT_EQ(merged({.attempt = 7}), "");
}

TEST_F(RunLogsTest, TheOrderIsThatOfArrivalWhateverTheClockSays) {
  print(3'600'000, 0, "first\n");
  print(0, 1, "second\n");
  print(10, 0, "third\n");

  EXPECT_EQ(merged(), "0:first\n1:second\n0:third\n");
}

TEST_F(RunLogsTest, AFollowerGetsEachLineOnceAndInOrder) {
  RunLogs logs(folder_, {});
  print(0, 0, "a\n");
  EXPECT_EQ(merged(logs, false), "") << "something may come that is older";
  EXPECT_EQ(merged(logs, false), "0:a\n");
  print(10, 1, "b\npart");
  print(20, 0, "c\n");
  EXPECT_EQ(merged(logs, false), "");
  print(30, 1, "ly\n");
  EXPECT_EQ(merged(logs, false), "1:b\n0:c\n");
  EXPECT_EQ(merged(logs, false), "1:partly\n");
  EXPECT_EQ(merged(logs, false), "");
  print(40, 0, "next\n", 1, 1);
  print(50, 0, "end");
  EXPECT_EQ(merged(logs, true), "0:end\n0:next\n") << "an attempt is whole before the next one";
}

TEST_F(RunLogsTest, AFollowerGetsNothingTwiceWhileTheTimesAreThinnedOut) {
  limits_ = {.stream_bytes = 300'000, .run_bytes = 300'000};
  restart_launcher();
  RunLogs logs(folder_, {});
  std::string expected, got;
  for (int i = 0; i < 400; ++i) {
    print(10 * i, i % 3, fmt::format("line {}\n", i));
    expected += fmt::format("{}:line {}\n", i % 3, i);
    if (i % 50 == 0) {  // what thinning out does, earlier
      const std::string path = folder_.output_times(Attempt{0});
      std::filesystem::copy_file(path, path + ".copy");
      std::filesystem::rename(path + ".copy", path);
      restart_launcher();
    }
    if (i % 7 == 0) got += merged(logs, false);
  }
  got += merged(logs, true);

  EXPECT_EQ(got, expected);
}

TEST_F(RunLogsTest, AFollowerWaitsAgainOnceTheTimesAreThinnedOut) {
  RunLogs logs(folder_, {});
  for (int i = 0; i < 8; ++i) print(10 * i, 0, "a\n");
  EXPECT_EQ(merged(logs, false), "");
  EXPECT_NE(merged(logs, false), "");
  const std::string path = folder_.output_times(Attempt{0});
  const std::string all = text_of(path);
  std::ofstream(path + ".thin") << all.substr(0, all.find('\n') + 1) << std::flush;
  std::filesystem::rename(path + ".thin", path);
  restart_launcher();

  print(500, 1, "b\n");
  EXPECT_EQ(merged(logs, false), "") << "its order says nothing about that of before";
  EXPECT_EQ(merged(logs, false), "1:b\n");
}

TEST_F(RunLogsTest, WhatIsMissingIsSaidInItsPlace) {
  limits_ = {.stream_bytes = 300, .run_bytes = 300'000};  // rotates at 100 bytes
  restart_launcher();
  for (int i = 0; i < 45; ++i) {
    print(20 * i, 0, fmt::format("line {:04}\n", i));
    if (i == 30) print(20 * i + 10, 1, "y\n");
  }

  const std::string late = merged();
  EXPECT_NE(late.find("0:line 0009\n0:\n0:[trainrun: 200 bytes of output are missing here: the log "
                      "had reached its limit]\n0:line 0030\n1:y\n0:line 0031\n"),
            late.npos)
      << late;
}

TEST_F(RunLogsTest, AnAttemptThatIsOverHoldsNoFileOpen) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  for (std::uint32_t attempt = 0; attempt < 20; ++attempt) {
    print(0, 0, "a\n", 1, attempt);
    log_->close(Attempt{attempt});
  }
  EXPECT_EQ(open_files(), before);
}

TEST_F(RunLogsTest, OutputOfEarlierVersionsHasNoTimes) {
  restart_launcher(false);
  print(0, 1, "old 1\n");
  print(0, 0, "old 0\n");
  RunLogs logs(folder_, {});
  EXPECT_EQ(merged(logs, true), "0:old 0\n1:old 1\n");
  EXPECT_EQ(logs.take_untimed(), (std::set<std::uint32_t>{0}));
  EXPECT_TRUE(logs.take_untimed().empty());
  print(0, 0, "old 2\n");
  EXPECT_EQ(merged(logs, true), "0:old 2\n");
  EXPECT_TRUE(logs.take_untimed().empty()) << "it has been said";

  restart_launcher();  // of this version
  print(500, 1, "new 1\n");
  print(510, 0, "new 0\n");
  RunLogs again(folder_, {});
  again.find();
  std::string out;
  again.merge(true, [&](LogLine&& line) {
    clock_.set(0);
    out += fmt::format("{}@{} ", line.text, (*line.at - clock_.wall()) / milliseconds(1));
  });
  EXPECT_EQ(out, "old 0@510 old 2@510 old 1@500 new 1@500 new 0@510 ") << "at the latest";
  EXPECT_TRUE(again.take_untimed().empty());
}

TEST_F(RunLogsTest, RotationAndTheNextLauncherKeepTheOrder) {
  limits_ = {.stream_bytes = 3000, .run_bytes = 300'000};
  restart_launcher();
  std::mt19937 random(7);
  RunLogs logs(folder_, {});
  std::string expected, got;
  for (int i = 0; i < 1000; ++i) {
    const auto rank = static_cast<std::int32_t>(random() % 3);
    print(10 * i, rank, fmt::format("line {}\n", i));
    expected += fmt::format("{}:line {}\n", rank, i);
    if (i % 20 == 0) got += merged(logs, false);
    if (i % 77 == 0) restart_launcher();
  }
  got += merged(logs, true);

  EXPECT_EQ(got, expected);
  const std::string late = merged();
  EXPECT_NE(late.find("bytes of output are missing here"), late.npos);
  EXPECT_TRUE(late.ends_with(expected.substr(expected.size() - 500))) << late;
}

TEST_F(RunLogsTest, TheRunsLimitRemovesOldTimesToo) {
  limits_ = {.stream_bytes = 3000, .run_bytes = 3000};
  restart_launcher();
  for (int i = 0; i < 30; ++i) print(10 * i, 0, "x\n");
  log_->close(Attempt{0});
  for (int i = 0; i < 4; ++i) print(1000 + 10 * i, 0, std::string(899, 'y') + "\n", 1, 1);

  EXPECT_EQ(text_of(folder_.output_times(Attempt{0})),
            "[trainrun: removed, as the run's output had reached its limit]\n");
  RunLogs old(folder_, {.attempt = 0});
  EXPECT_NE(merged(old, true), "");
  EXPECT_EQ(old.take_untimed(), (std::set<std::uint32_t>{0}));
}

TEST_F(RunLogsTest, EmptyLinesTakeNoMoreMemoryThanTheirBytes) {
  constexpr int kRanks = 8;
  const std::string text(1u << 20, '\n');
  for (int rank = 0; rank < kRanks; ++rank) print(10 * rank, rank, text);
  const auto held = [] {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  RunLogs logs(folder_, {});
  logs.find();
  const std::size_t before = held();
  std::size_t most = 0, lines = 0;
  logs.merge(true, [&](LogLine&&) {
    if (lines++ % 100'000 == 0) most = std::max(most, held());
  });

  EXPECT_EQ(lines, kRanks * text.size());
  EXPECT_LT(most, before + (8u << 20)) << "256 KiB of each rank";
}

TEST_F(RunLogsTest, TimesThatCannotBeKeptAreToldOnceAndCostNoOutput) {
  std::filesystem::create_directories(folder_.output_times(Attempt{0}));
  print(0, 0, "a\n");
  print(10, 0, "b\n");

  EXPECT_TRUE(log_->take_times_error());
  EXPECT_FALSE(log_->take_times_error());
  EXPECT_EQ(merged(), "0:a\n0:b\n");
}

}  // namespace
}  // namespace train
