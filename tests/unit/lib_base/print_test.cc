#include "lib/base/print.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

namespace train {
namespace {

struct Ended {
  int code = -1;
  std::string out, err;
};

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

/// Return what a program with this main() leaves. `out`: its stdout; "": a pipe, "-": closed.
Ended run_main(const std::function<int()>& main, const std::string& out = "") {
  int out_pipe[2], err_pipe[2];
  EXPECT_EQ(::pipe(out_pipe), 0);
  EXPECT_EQ(::pipe(err_pipe), 0);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const int target = out.empty() || out == "-" ? out_pipe[1] : ::open(out.c_str(), O_WRONLY);
    ::dup2(target, STDOUT_FILENO);
    ::dup2(err_pipe[1], STDERR_FILENO);
    if (out == "-") ::close(STDOUT_FILENO);
    const int code = main();
    std::fflush(stdout);
    ::_exit(code);
  }
  ::close(out_pipe[1]);
  ::close(err_pipe[1]);
  Ended ended{-1, read_all(out_pipe[0]), read_all(err_pipe[0])};
  ::close(out_pipe[0]);
  ::close(err_pipe[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  return ended;
}

TEST(Print, MakesTextsSafeAndLeavesNumbers) {
  const Ended ended = run_main([] {
    print_out("{} is {:>4} at {:.1f}{}\n", "a\x1b[31m\nb", 7, 0.25, std::string("\u202e"));
    print_err("error: {}\n{}", std::string_view("x\r"), Lines{"one\x07\ntwo\n"});
    return finish_output(0);
  });

  EXPECT_EQ(ended.out, "a^Jb is    7 at 0.2\\u202e\n");
  EXPECT_EQ(ended.err, "error: x^M\none^G\ntwo\n");
  EXPECT_EQ(ended.code, 0);
}

TEST(Print, SaysOnceThatTheDiskIsFull) {
  const Ended ended = run_main(
      [] {
        for (int i = 0; i < 3; ++i) {
          print_out("{}\n", std::string(1 << 20, 'x'));
        }
        return finish_output(0);
      },
      "/dev/full");

  EXPECT_EQ(ended.code, 74);
  EXPECT_NE(ended.err.find(": error: stdout cannot be written: No space left on device\n"),
            std::string::npos)
      << ended.err;
  EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
}

/// The last line fails only when it is flushed.
TEST(Print, NoticesALineThatTheBufferTook) {
  for (const bool flushed_before : {false, true}) {
    const auto main = [&] {
      print_out("{}\n", 1);
      if (flushed_before) flush_out();
      return finish_output(0);
    };
    const Ended ended = run_main(main, "/dev/full");
    EXPECT_EQ(ended.code, 74);
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

TEST(Print, KeepsTheCodeOfAFailure) {
  const auto main = [] {
    print_out("{}\n", 1);
    return finish_output(66);
  };

  EXPECT_EQ(run_main(main, "/dev/full").code, 66);
}

TEST(Print, NoFileGetsTheNumberOfAClosedStdout) {
  int file = -1;
  const Ended ended = run_main(
      [&] {
        hold_standard_streams();
        file = ::open("/dev/null", O_WRONLY);
        if (file <= STDERR_FILENO) return 1;
        print_out("{}\n", "text");
        return finish_output(0);
      },
      "-");

  EXPECT_EQ(ended.code, 74);
  EXPECT_NE(ended.err.find("stdout cannot be written: Bad file descriptor\n"), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace train
