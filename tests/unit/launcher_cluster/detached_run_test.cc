#include "launcher/cluster/run/detached_run.h"

#include <sys/wait.h>

#include <cstdio>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class KeptRunTest : public testing::Test {
 protected:
  TempFolder temp_;
  const RunFolder folder_{temp_.path()};
};

TEST_F(KeptRunTest, AControllerThatIsKeptWritesToTheRunsLog) {
  std::ofstream(temp_.path() + "/launcher.log") << "of an earlier one\n";
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool begun = begin_detached(folder_).has_value();
    std::printf("said\n");
    std::fprintf(stderr, "warned\n");
    std::fflush(stdout);
    ::_exit(begun ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);

  EXPECT_EQ(status, 0);
  const std::string log = text_of(temp_.path() + "/launcher.log");
  EXPECT_TRUE(log.starts_with("of an earlier one\n")) << log;
  EXPECT_NE(log.find("said\n"), std::string::npos) << log;
  EXPECT_NE(log.find("warned\n"), std::string::npos) << log;
  EXPECT_TRUE(is_detached(folder_));
  end_detached(folder_);
  EXPECT_FALSE(is_detached(folder_));
}

TEST_F(KeptRunTest, OneWithoutAFolderCannotBegin) {
  EXPECT_FALSE(begin_detached(RunFolder(temp_.path() + "/none")));
}

TEST_F(KeptRunTest, WhatIsLeftOfARunSaysWhatTakesItUp) {
  EXPECT_EQ(left_text(folder_),
            fmt::format("interrupted: its train-run has died; `train-run resume {}` finds its "
                        "workers, or continues from the newest checkpoint",
                        temp_.path()));
  std::ofstream(temp_.path() + "/.detached") << "";
  EXPECT_EQ(
      left_text(folder_),
      fmt::format(
          "interrupted: its controller has died, and no traind has started another yet; `train-run "
          "resume --detach {}` finds its workers, or continues from the newest checkpoint",
          temp_.path()));
}

}  // namespace
}  // namespace train
