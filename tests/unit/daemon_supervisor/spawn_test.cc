#include "daemon/supervisor/processes/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>

namespace train {
namespace {

namespace fs = std::filesystem;

class SpawnTest : public testing::Test {
 protected:
  SpawnTest() {
    char name[] = "/tmp/spawn-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~SpawnTest() override { fs::remove_all(dir_); }

  /// Make a script in the test's folder that prints `word`.
  void script(const std::string& name, const std::string& word, mode_t mode = 0755) const {
    fs::create_directories(fs::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name) << "#!/bin/sh\necho " << word << "\n";
    ASSERT_EQ(::chmod((dir_ + "/" + name).c_str(), mode), 0);
  }
  /// Run a program to its end. Return its output and how it ended.
  std::string output_of(SpawnRequest request) {
    const auto process = spawn_piped(context_.get_executor(), std::move(request));
    if (!process) return process.error().message;
    std::string text;
    for (const int fd : {process->stdout_fd, process->stderr_fd}) {
      char piece[256];
      for (ssize_t size; (size = ::read(fd, piece, sizeof piece)) > 0;)
        text.append(piece, static_cast<std::size_t>(size));
      ::close(fd);
    }
    const auto status = end_of(process->pid);
    if (status.signaled) return text + fmt::format("signal {}", status.status);
    return status.status == 0 ? text : text + fmt::format("exit {}", status.status);
  }
  WaitStatus end_of(pid_t pid) {
    std::optional<Result<WaitStatus>> ended;
    asio::co_spawn(
        context_,
        [&]() -> asio::awaitable<void> {
          auto waiting = wait_for_end(context_.get_executor(), pid);
          ended = co_await std::move(waiting);
        },
        [](const std::exception_ptr&) {});
    context_.restart();
    context_.run();
    EXPECT_TRUE(ended && *ended);
    return ended && *ended ? **ended : WaitStatus{};
  }
  Error error_of(const SpawnRequest& request) {
    const auto pid = spawn_process(context_.get_executor(), request);
    EXPECT_FALSE(pid);
    return pid ? Error{} : pid.error();
  }

  std::string dir_;
  asio::io_context context_;
};

TEST_F(SpawnTest, AProgramIsFoundInTheFoldersOfItsOwnPath) {
  script("a/hello", "first", 0644);  // not executable: search continues
  fs::create_directories(dir_ + "/b/hello");
  script("c/hello", "third");
  script("d/hello", "fourth");
  const std::map<std::string, std::string> env{
      {"PATH", fmt::format("{0}/none:{0}/a:{0}/b:{0}/c:{0}/d", dir_)}};

  EXPECT_EQ(output_of({.argv = {"hello"}, .env = env}), "third\n");
}

TEST_F(SpawnTest, WithoutAPathItIsLookedForWhereSystemsKeepPrograms) {
  EXPECT_EQ(output_of({.argv = {"echo", "a b", "c"}}), "a b c\n");
}

TEST_F(SpawnTest, APathIsTakenFromTheWorkingFolder) {
  script("bin/hello", "here");

  EXPECT_EQ(output_of({.argv = {"bin/hello"}, .working_dir = dir_}), "here\n");
  EXPECT_EQ(output_of({.argv = {dir_ + "/bin/hello"}, .working_dir = "/"}), "here\n");
}

TEST_F(SpawnTest, ItsEnvironmentIsWhatItWasGivenAndNothingElse) {
  EXPECT_EQ(output_of({.argv = {"/usr/bin/env"}, .env = {{"A", "1"}, {"B", "x=y"}}}),
            "A=1\nB=x=y\n");
}

TEST_F(SpawnTest, HowItEndedIsToldApart) {
  EXPECT_EQ(output_of({.argv = {"sh", "-c", "echo out; echo err >&2; exit 7"}}),
            "out\nerr\nexit 7");
  EXPECT_EQ(output_of({.argv = {"sh", "-c", "kill -TERM $$"}}), "signal 15");
  const auto pid = spawn_process(context_.get_executor(), {.argv = {"sh", "-c", "kill -TERM $$"}});
  ASSERT_TRUE(pid);
  EXPECT_FALSE(end_of(*pid).core_dumped);
}

TEST_F(SpawnTest, ItsInputIsEmptyAndWhatItIsNotGivenToWriteToIsNowhere) {
  EXPECT_EQ(output_of({.argv = {"sh", "-c", "wc -c; readlink /proc/self/fd/0"}}), "0\n/dev/null\n");
  const auto pid = spawn_process(context_.get_executor(),
                                 {.argv = {"sh", "-c",
                                           "test $(readlink /proc/$$/fd/1) = /dev/null && test "
                                           "$(readlink /proc/$$/fd/2) = /dev/null && exit 5"}});
  ASSERT_TRUE(pid);
  EXPECT_EQ(end_of(*pid).status, 5);
}

TEST_F(SpawnTest, ADescriptorThatItShallHaveKeepsItsNumber) {
  script("said", "inherited");
  const int low = ::open((dir_ + "/said").c_str(), O_RDONLY | O_CLOEXEC);
  const int fd = ::fcntl(low, F_DUPFD_CLOEXEC, 40);
  ::close(low);
  SpawnRequest request{.argv = {"sh", "-c", fmt::format("cat /proc/self/fd/{}", fd)}};
  EXPECT_NE(output_of(request), "#!/bin/sh\necho inherited\n");

  request.inherit_fds = {fd};

  EXPECT_EQ(output_of(request), "#!/bin/sh\necho inherited\n");
  ::close(fd);
}

TEST_F(SpawnTest, WhatCannotBeStartedIsSaidWithWhatToDo) {
  script("plain", "never", 0644);
  EXPECT_EQ(error_of({}).message, "the command is empty");

  const Error nowhere = error_of({.argv = {"no-such-program"}});
  EXPECT_EQ(nowhere.code, Errc::NotFound);
  EXPECT_EQ(nowhere.message, "the command 'no-such-program' is not in PATH");
  EXPECT_EQ(nowhere.hint, "give its path, or set PATH in `env`");

  const Error missing = error_of({.argv = {"./none"}, .working_dir = dir_});
  EXPECT_EQ(missing.code, Errc::NotFound);
  EXPECT_EQ(missing.message, fmt::format("the command './none' is not found ({}/./none)", dir_));

  const Error plain = error_of({.argv = {"./plain"}, .working_dir = dir_});
  EXPECT_EQ(plain.code, Errc::Permission);
  EXPECT_EQ(plain.message,
            fmt::format("the command './plain' is not executable ({}/./plain)", dir_));
  EXPECT_EQ(error_of({.argv = {dir_}}).code, Errc::Permission);

  const Error folder = error_of({.argv = {"sh"}, .working_dir = dir_ + "/none"});
  EXPECT_EQ(folder.code, Errc::NotFound);
  EXPECT_EQ(folder.message, fmt::format("the working directory '{}/none' does not exist", dir_));
  EXPECT_EQ(error_of({.argv = {"sh"}, .working_dir = dir_ + "/plain"}).code, Errc::NotFound);
}

TEST_F(SpawnTest, AFileThatIsNoProgramIsNamedAsThat) {
  std::ofstream(dir_ + "/text") << "only text\n";
  ASSERT_EQ(::chmod((dir_ + "/text").c_str(), 0755), 0);

  const Error error = error_of({.argv = {dir_ + "/text"}});

  EXPECT_EQ(error.message, fmt::format("starting '{}/text': Exec format error", dir_));
  EXPECT_EQ(error.hint, "the file has no #! line and is not an executable for this machine");
}

TEST_F(SpawnTest, WhatIsTooLargeToStartIsNamed) {
  const Error error =
      error_of({.argv = {"sh", "-c", "true"}, .env = {{"TF_CONFIG", std::string(200'000, 'x')}}});

  EXPECT_EQ(error.message, "starting 'sh': Argument list too long");
  EXPECT_EQ(error.hint,
            "a variable or a word of the command may have 128 KiB, and all together a quarter of "
            "the limit of the stack (ulimit -s): these have 200017 bytes, 200009 of them in "
            "TF_CONFIG");
}

TEST_F(SpawnTest, ItDiesWithTheOneWhoStartedIt) {
  int said[2] = {-1, -1}, go[2] = {-1, -1};
  ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    asio::io_context context;
    (void)spawn_process(context.get_executor(),
                        {.argv = {"sh", "-c", "echo $$; exec sleep 1000"}, .stdout_fd = said[1]});
    char byte = 0;
    [[maybe_unused]] const auto told = ::read(go[0], &byte, 1);
    ::_exit(0);
  }
  ::close(said[1]);
  char text[32] = {};
  ASSERT_GT(::read(said[0], text, sizeof text - 1), 0);
  EXPECT_GT(std::atoi(text), 0);

  ASSERT_EQ(::write(go[1], "x", 1), 1);

  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  pollfd end{.fd = said[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, 60000), 1) << "it lives on";
  for (const int fd : {said[0], go[0], go[1]}) ::close(fd);
}

}  // namespace
}  // namespace train
