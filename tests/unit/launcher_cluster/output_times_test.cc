#include "launcher/cluster/reports/output_times.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr StreamKey kOut{0, 1}, kErr{0, 2}, kOther{12, 1};

std::chrono::system_clock::time_point at(int milliseconds) {
  return std::chrono::system_clock::time_point(std::chrono::hours(500'000)) +
         std::chrono::milliseconds(milliseconds);
}

class OutputTimesTest : public ::testing::Test {
 protected:
  /// Return "order@milliseconds" of the byte; "none" if its time is not known.
  std::string mark(StreamKey stream, std::uint64_t position) {
    const OutputMark* found = reader_.find(stream, position);
    if (found == nullptr) return "none";
    return fmt::format(
        "{}@{}", found->order,
        std::chrono::duration_cast<std::chrono::milliseconds>(found->at - at(0)).count());
  }

  TempFolder temp_;
  const std::string path_ = temp_.path() + "/output.times";
  OutputTimes times_{path_};
  OutputTimesReader reader_{path_};
};

TEST_F(OutputTimesTest, TellsWhenEachByteArrived) {
  times_.note(kOut, 0, at(0)).value();
  times_.note(kErr, 0, at(1)).value();
  times_.note(kOther, 7, at(2)).value();
  times_.note(kOut, 10, at(50)).value();
  reader_.update();

  EXPECT_EQ(text_of(path_),
            "1800000000000000 0 1 0\n1800000000001000 0 2 0\n1800000000002000 12 1 7\n"
            "1800000000050000 0 1 10\n");
  EXPECT_EQ(mark(kOut, 0), "0@0");
  EXPECT_EQ(mark(kOut, 9), "0@0");
  EXPECT_EQ(mark(kOut, 10), "3@50");
  EXPECT_EQ(mark(kOut, 1000), "3@50");
  EXPECT_EQ(mark(kErr, 5), "1@1");
  EXPECT_EQ(mark(kOther, 6), "none") << "an earlier version has written it";
  EXPECT_EQ(reader_.first(kOther)->position, 7u);
  EXPECT_EQ(mark({5, 1}, 0), "none");
}

TEST_F(OutputTimesTest, WhatComesSoonAfterAMarkNeedsNone) {
  EXPECT_GT(times_.note(kOut, 0, at(0)).value(), 0u);
  EXPECT_EQ(times_.note(kOut, 5, at(4)).value(), 0u);
  EXPECT_GT(times_.note(kOut, 9, at(5)).value(), 0u);
  EXPECT_GT(times_.note(kOut, 12, at(-3'600'000)).value(), 0u) << "the clock was set back";
  reader_.update();

  EXPECT_EQ(mark(kOut, 8), "0@0");
  EXPECT_EQ(mark(kOut, 9), "1@5");
  EXPECT_EQ(mark(kOut, 12), "2@-3600000") << "the order stays that of arrival";
}

TEST_F(OutputTimesTest, ReadsWhatTheNextLauncherAddsBehindALineThatIsCut) {
  times_.note(kOut, 0, at(0)).value();
  reader_.update();
  std::ofstream(path_, std::ios::app) << "18000000000" << std::flush;  // and was killed
  reader_.update();
  OutputTimes next(path_);
  next.note(kOut, 4, at(20)).value();
  reader_.update();

  EXPECT_EQ(reader_.count(), 2u);
  EXPECT_EQ(mark(kOut, 4), "1@20");
}

TEST_F(OutputTimesTest, TheNextLauncherAddsRightBehindALineThatIsWhole) {
  std::ofstream(path_) << "0 0 1 0\n" << std::flush;  // the first moment that there is
  OutputTimes next(path_);
  next.note(kOut, 4, at(20)).value();
  reader_.update();

  EXPECT_EQ(reader_.count(), 2u);
  EXPECT_EQ(reader_.find(kOut, 3)->at.time_since_epoch().count(), 0);
  std::ifstream file(path_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text.find("\n\n"), std::string::npos) << text;
}

TEST_F(OutputTimesTest, AMarkWhoseOutputIsMissingGivesWayToTheNextOne) {
  times_.note(kOut, 0, at(0)).value();
  times_.note(kOut, 4, at(10)).value();  // and was killed before it wrote the output
  OutputTimes next(path_);
  next.note(kOut, 4, at(5000)).value();
  reader_.update();

  EXPECT_EQ(mark(kOut, 3), "0@0");
  EXPECT_EQ(mark(kOut, 4), "2@5000");
}

TEST_F(OutputTimesTest, SoDoesOneOfOutputThatAPowerCutHasTaken) {
  times_.note(kOut, 0, at(0)).value();
  times_.note(kOut, 40, at(10)).value();
  OutputTimes next(path_);
  next.note(kOut, 4, at(5000)).value();
  reader_.update();

  EXPECT_EQ(mark(kOut, 3), "0@0");
  EXPECT_EQ(mark(kOut, 4), "2@5000");
  EXPECT_EQ(mark(kOut, 40), "2@5000");
}

TEST_F(OutputTimesTest, StaysBelowItsLimitAndKnowsOldTimesLessExactly) {
  OutputTimes small(path_, 2000);
  const std::uint64_t version = reader_.version();
  for (int i = 0; i < 1000; ++i) {
    small.note(kOut, static_cast<std::uint64_t>(10 * i), at(10 * i)).value();
    ASSERT_LE(std::filesystem::file_size(path_), 2000u);
    if (i % 100 == 0) reader_.update();
  }
  small.note(kErr, 0, at(20'000)).value();
  reader_.update();

  EXPECT_GT(reader_.version(), version + 3);
  EXPECT_EQ(mark(kOut, 0), "0@0");
  EXPECT_EQ(mark(kOut, 9995).substr(mark(kOut, 9995).find('@')), "@9990");
  for (int i = 0; i < 1000; ++i) {  // a mark is never later than its output
    const OutputMark* found = reader_.find(kOut, static_cast<std::uint64_t>(10 * i));
    ASSERT_LE(found->at, at(10 * i));
    ASSERT_LE(found->position, static_cast<std::uint64_t>(10 * i));
  }
}

TEST_F(OutputTimesTest, IgnoresWhatIsNoMark) {
  std::ofstream(path_) << "1800000000000000 0 1 0\n\nx\n1 2 3\n1 -2 1 0\n1 2 3 4\n-1 0 1 5\n"
                          "1 0 1 5 6\n99999999999999999999 0 1 5\n"
                          "9223372036854775807 0 1 5\n7289654400000000 0 1 5\n"
                       << std::string(1 << 20, '7')
                       << "\n[trainrun: removed, as the run's output had reached its limit]\n";
  reader_.update();

  EXPECT_EQ(reader_.count(), 1u);
  EXPECT_EQ(mark(kOut, 5), "0@0");
}

TEST_F(OutputTimesTest, AFileThatCannotBeMadeIsAnError) {
  OutputTimes nowhere(temp_.path() + "/none/output.times");
  EXPECT_EQ(nowhere.note(kOut, 0, at(0)).error().code, Errc::NotFound);
}

}  // namespace
}  // namespace train
