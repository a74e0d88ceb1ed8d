#include "launcher/dashboard/worker_environment.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "lib/base/text_file.h"

namespace train {
namespace {

/// A process with this environment. It has begun when the constructor returns.
class Process {
 public:
  explicit Process(std::vector<std::string> environment) {
    char program[] = "/bin/sleep", seconds[] = "600";
    char* arguments[] = {program, seconds, nullptr};
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    variables.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, program, nullptr, nullptr, arguments, variables.data()), 0);
    // The kernel lets us go on a moment before it sets the environment.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (read_text("/proc/" + std::to_string(pid_) + "/environ").empty() &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
  }
  ~Process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(WorkerEnvironment, IsReadFromTheRanksOwnProcessOnly) {
  const Process worker({"TRAINRUN_RUN_ID=r1", "RANK=3", "EMPTY=", "no sign", "PATH=/bin"});

  EXPECT_EQ(
      worker_environment(worker.pid(), "r1", 3),
      (Environment{{"TRAINRUN_RUN_ID", "r1"}, {"RANK", "3"}, {"EMPTY", ""}, {"PATH", "/bin"}}));
  EXPECT_FALSE(worker_environment(worker.pid(), "r1", 2));
  EXPECT_FALSE(worker_environment(worker.pid(), "r2", 3));
  EXPECT_FALSE(worker_environment(::getpid(), "r1", 3));
  EXPECT_FALSE(worker_environment(-1, "r1", 3));
}

TEST(WorkerEnvironment, IsThatOfAWorkerThatGotItsRankLater) {
  const Process worker({"TRAINRUN_RUN_ID=r1", "TRAINRUN_STANDBY=0"});
  EXPECT_TRUE(worker_environment(worker.pid(), "r1", 3));
}

TEST(WorkerEnvironment, IsShownWithoutSecrets) {
  JobSpec spec;
  spec.env = {{"DATASET", "file:/secrets/dataset"}, {"BATCH", "64"}};
  const Environment shown =
      shown_worker_environment({{"HF_TOKEN", "hf_abcdefgh"},
                                {"DATASET", "s3-key-of-the-data"},
                                {"BATCH", "64"},
                                {"COMMAND", "curl -H hf_abcdefgh"},
                                {"COPY", "has s3-key-of-the-data inside"},
                                {"URL", "https://ada:lovelace1815@example.org/x"},
                                {"LONG", std::string(10'000, 'x')},
                                {"BYTES", "\xff"}},
                               spec);

  EXPECT_EQ(shown.at("HF_TOKEN"), "<redacted:HF_TOKEN>");
  EXPECT_EQ(shown.at("DATASET"), "<redacted:DATASET>");
  EXPECT_EQ(shown.at("BATCH"), "64");
  EXPECT_EQ(shown.at("COMMAND"), "curl -H <redacted:HF_TOKEN>");
  EXPECT_EQ(shown.at("COPY"), "has <redacted:DATASET> inside");
  EXPECT_EQ(shown.at("URL").find("lovelace1815"), std::string::npos) << shown.at("URL");
  EXPECT_EQ(shown.at("LONG").size(), 4096U);
  EXPECT_EQ(shown.at("BYTES"), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace train
