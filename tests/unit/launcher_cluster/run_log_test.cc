#include "launcher/cluster/run/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;

class RunLogTest : public testing::Test {
 protected:
  /// Return what a log of `level` has about a death, a report, and a decision to restart.
  std::string log_of(std::string_view level, LogFormat format) {
    const RunFolder folder(temp_.path() + "/" + std::string(level));
    std::filesystem::create_directory(folder.path());
    RunLog log(open_run_log(folder, "vit", level, format).value(),
               [](NodeId node) { return "gpu-" + std::to_string(node.value); });
    log.event(NodeDown{NodeId{1}, "no answer for 10 s"});
    log.event(RankReported{Attempt{2}, Rank{3}, 7});
    log.event(RankExited{Attempt{2}, Rank{3}, WorkerEnd{.signaled = true, .status = 9}});
    log.action(StateChanged{RunState::Running, RunState::TearingDown, RunTrigger::GroupEnding,
                            Attempt{2}, "rank 3 was killed", ""});
    log.action(Pause{Attempt{2}, NodeId{1}, PauseStep::Pause, 7, "the group grows"});
    log.action(Pause{Attempt{2}, NodeId{1}, PauseStep::Advance, 8, "the group grows"});
    log.action(Pause{Attempt{2}, NodeId{1}, PauseStep::Finish, 9, "the group grows"});
    log.action(Note{NoteLevel::Warning, "told as a warning"});
    log.warning("disk is nearly full");
    log.close()();
    log.warning("after the end");
    std::stringstream text;
    text << std::ifstream(folder.log()).rdbuf();
    return text.str();
  }

  TempFolder temp_;
};

TEST_F(RunLogTest, InfoHasEventsAndDecisionsWithWhoTheyAreAbout) {
  const std::string text = log_of("info", LogFormat::Logfmt);
  EXPECT_THAT(text, HasSubstr("level=warn component=train-run run=vit msg=\"node lost\" node=gpu-1 "
                              "reason=\"no answer for 10 s\"\n"));
  EXPECT_THAT(text, HasSubstr("level=error component=train-run run=vit msg=\"worker ended\" "
                              "attempt=2 rank=3 end=\"signal 9\""));
  EXPECT_THAT(text, HasSubstr("msg=state from=running to=tearing_down"));
  EXPECT_THAT(text,
              HasSubstr("level=warn component=train-run run=vit msg=\"disk is nearly full\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("msg=report")));
  EXPECT_THAT(text, Not(HasSubstr("pause workers")));
  EXPECT_THAT(text, Not(HasSubstr("told as a warning")));  // its warning is logged instead
  EXPECT_THAT(text, Not(HasSubstr("after the end")));
}

TEST_F(RunLogTest, DebugHasReportsToo) {
  EXPECT_THAT(
      log_of("debug", LogFormat::Logfmt),
      HasSubstr("level=debug component=train-run run=vit msg=report attempt=2 rank=3 report=7\n"));
}

TEST_F(RunLogTest, DebugNamesTheSteps) {
  const std::string text = log_of("debug", LogFormat::Logfmt);
  for (const char* step : {"step=pause report=7", "step=advance report=8", "step=finish report=9"})
    EXPECT_THAT(text, HasSubstr(std::string("msg=\"pause workers\" attempt=2 node=gpu-1 ") + step));
}

TEST_F(RunLogTest, ErrorHasFailuresOnly) {
  const std::string text = log_of("error", LogFormat::Logfmt);
  EXPECT_THAT(text, HasSubstr("worker ended"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(RunLogTest, JsonHasAnObjectALine) {
  EXPECT_THAT(
      log_of("warning", LogFormat::Json),
      HasSubstr(
          R"("level":"error","component":"train-run","run":"vit","msg":"worker ended","attempt":2,"rank":3,"end":"signal 9")"));
}

TEST_F(RunLogTest, AFileThatCannotBeMadeIsAnError) {
  const std::string file = temp_.path() + "/file";
  std::ofstream(file) << "no folder";
  const auto log = open_run_log(RunFolder(file), "vit", "info", LogFormat::Logfmt);
  ASSERT_TRUE(log.has_error());
  EXPECT_THAT(log.error().describe(), HasSubstr("train-run.log"));
}

}  // namespace
}  // namespace train
