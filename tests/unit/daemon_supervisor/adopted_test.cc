#include "daemon/supervisor/processes/adopted.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/text_file.h"
#include "lib/net/scope.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

constexpr const char* kSleep = "exec sleep 1000";

/// This process adopts the orphans of its children.
class AdoptedTest : public testing::Test {
 protected:
  AdoptedTest() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~AdoptedTest() override {
    while (kill_adopted({}) > 0) ::sched_yield();  // until all are reaped
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  /// Run an sh script that leaves a process behind. Return that process's pid.
  pid_t orphan(const std::string& script, const std::map<std::string, std::string>& env = {}) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    SpawnRequest request{
        .argv = {"sh", "-c", script + " > /dev/null & echo $!"}, .env = env, .stdout_fd = ends[1]};
    request.env["PATH"] = "/usr/bin:/bin";
    const auto parent = spawn_process(context_.get_executor(), request);
    EXPECT_TRUE(parent);
    ::close(ends[1]);
    char text[32] = {};
    EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
    ::close(ends[0]);
    EXPECT_EQ(::waitpid(*parent, nullptr, 0), *parent);
    forget_own_child(*parent);
    const pid_t pid = std::atoi(text);
    // In the middle of execve(), it has no environment.
    if (script == kSleep) {
      EXPECT_TRUE(fakes::eventually([&] { return is_sleep(pid); }));
    }
    return pid;
  }
  static bool is_sleep(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    return read_text(folder + "/comm") == "sleep\n" && !read_text(folder + "/environ").empty();
  }
  static bool lives(pid_t pid) { return ::kill(pid, 0) == 0; }

  boost::asio::io_context context_;
};

TEST_F(AdoptedTest, IsKilledByWhatItBeganWith) {
  const pid_t first = orphan(kSleep, {{"RANK", "1"}, {"TRAINRUN_RUN_ID", "r"}});
  const pid_t second = orphan(kSleep, {{"RANK", "11"}, {"TRAINRUN_RUN_ID", "r"}});
  const pid_t other = orphan(kSleep);

  EXPECT_EQ(kill_adopted({"RANK=1", "TRAINRUN_RUN_ID=r"}), 1);
  ::waitpid(first, nullptr, 0);
  EXPECT_EQ(kill_adopted({"RANK=1", "TRAINRUN_RUN_ID=another"}), 0);

  EXPECT_FALSE(lives(first));
  EXPECT_TRUE(lives(second) && lives(other));
  EXPECT_EQ(kill_adopted({}), 2);
}

TEST_F(AdoptedTest, IsKilledByAnyOfSomeVariables) {
  const pid_t first = orphan(kSleep, {{"RANK", "1"}});
  const pid_t second = orphan(kSleep, {{"TRAINRUN_STANDBY", "2"}});
  const pid_t other = orphan(kSleep, {{"RANK", "3"}, {"OLDRANK", "1"}});

  EXPECT_EQ(kill_adopted_with_any({"RANK=1", "TRAINRUN_STANDBY=2", "RANK=7"}), 2);
  ::waitpid(first, nullptr, 0);
  ::waitpid(second, nullptr, 0);
  EXPECT_EQ(kill_adopted_with_any({}), 0);

  EXPECT_FALSE(lives(first) || lives(second));
  EXPECT_TRUE(lives(other));
  EXPECT_EQ(kill_adopted({"RANK=3"}), 1);
}

TEST_F(AdoptedTest, IsKilledByTheUserThatItRunsAs) {
  const pid_t ours = orphan(kSleep);

  EXPECT_EQ(kill_adopted_of(::geteuid() + 1), 0);
  EXPECT_TRUE(lives(ours));
  EXPECT_EQ(kill_adopted_of(::geteuid()), 1);

  ::waitpid(ours, nullptr, 0);
  EXPECT_FALSE(lives(ours));
}

TEST_F(AdoptedTest, IsKnownByItsWholeEnvironmentHoweverLarge) {
  const std::map<std::string, std::string> large{
      {"A", std::string(100'000, 'a')}, {"B", std::string(100'000, 'b')}, {"RANK", "1"}};
  const pid_t first = orphan(kSleep, large);

  EXPECT_EQ(kill_adopted({"RANK=1"}), 1);

  ::waitpid(first, nullptr, 0);
  EXPECT_FALSE(lives(first));
}

// In the middle of execve(), a process briefly has no environment.
TEST_F(AdoptedTest, IsKilledEvenWhileItBecomesAnotherProgram) {
  for (int i = 0; i < 100; ++i) {
    const pid_t restless = orphan("exec sh -c 'exec sh -c \"$AGAIN\"'",
                                  {{"RANK", "1"}, {"AGAIN", "exec sh -c \"$AGAIN\""}});

    ASSERT_EQ(kill_adopted({"RANK=1"}), 1) << i;

    ::waitpid(restless, nullptr, 0);
    ASSERT_FALSE(lives(restless));
  }
}

/// A large process takes a while to end. Its environment is gone before its children come to us.
TEST_F(AdoptedTest, WhatADyingOneLeavesIsKilledToo) {
  const std::string child_file = ::testing::TempDir() + "adopted-" + std::to_string(::getpid());
  for (int round = 0; round < 5; ++round) {
    const pid_t large = orphan(
        "exec python3 -c 'import signal, subprocess\n"
        "child = subprocess.Popen([\"sleep\", \"1000\"], start_new_session=True)\n"
        "memory = bytearray(400_000_000)\n"
        "memory[::4096] = b\"x\" * len(memory[::4096])\n"
        "open(\"" +
            child_file +
            "\", \"w\").write(str(child.pid) + \"\\n\")\n"
            "signal.pause()'",
        {{"RANK", "1"}});
    ASSERT_TRUE(fakes::eventually([&] { return read_text(child_file).ends_with("\n"); }));
    const pid_t child = std::atoi(read_text(child_file).c_str());
    ::unlink(child_file.c_str());

    ::kill(large, SIGKILL);
    while (kill_adopted({"RANK=1"}) > 0) ::sched_yield();

    EXPECT_TRUE(fakes::eventually([&] { return !lives(child); })) << round;
  }
}

TEST_F(AdoptedTest, OneThatKeepsNoEnvironmentIsNotWaitedFor) {
  const pid_t bare = orphan("exec env -i sleep 1000", {{"RANK", "1"}});
  ASSERT_TRUE(fakes::eventually(
      [&] { return read_text("/proc/" + std::to_string(bare) + "/comm") == "sleep\n"; }));

  EXPECT_EQ(kill_adopted({"RANK=1"}), 0);

  EXPECT_TRUE(lives(bare));
}

TEST_F(AdoptedTest, WhatWeSpawnedIsNot) {
  const auto ours = spawn_process(context_.get_executor(), {.argv = {"sleep", "1000"}});
  ASSERT_TRUE(ours);

  EXPECT_EQ(kill_adopted({}), 0);

  EXPECT_TRUE(lives(*ours));
  forget_own_child(*ours);
  ::kill(*ours, SIGKILL);
  ::waitpid(*ours, nullptr, 0);
}

TEST_F(AdoptedTest, IsReapedAsSoonAsItHasEndedAndWhatWeSpawnedIsLeftToItsWaiter) {
  Scope scope(context_.get_executor());
  scope.spawn("adopted", reap_adopted(context_.get_executor()));
  const auto ours = spawn_process(context_.get_executor(), {.argv = {"true"}});
  ASSERT_TRUE(ours);
  const pid_t left = orphan("exec sleep 0");

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (lives(left) && std::chrono::steady_clock::now() < deadline)
    context_.run_for(std::chrono::milliseconds(1));

  EXPECT_FALSE(lives(left)) << "not even a zombie is left";
  int status = -1;
  EXPECT_EQ(::waitpid(*ours, &status, 0), *ours);
  EXPECT_EQ(status, 0);
  forget_own_child(*ours);
  scope.cancel();
  while (scope.size() > 0) context_.run_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace train
