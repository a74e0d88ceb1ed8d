// Starts the target programs, and looks at them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/take_stacks.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/lib_stacks/programs/shared_page.h"

namespace train::stacks_test {

inline TimePoint soon() { return std::chrono::steady_clock::now() + seconds{60}; }

/// A running target. It is killed at the end unless it has ended.
class Target {
 public:
  explicit Target(std::vector<std::string> arguments, const std::string& program = TARGET)
      : memory_(::memfd_create("page", MFD_CLOEXEC)) {
    int input[2];
    EXPECT_EQ(::pipe2(input, O_CLOEXEC), 0);
    FileDescriptor read_end(input[0]);
    input_.reset(input[1]);
    EXPECT_EQ(::ftruncate(memory_.get(), sizeof(SharedPage)), 0);
    page_ = map_page(memory_.get());
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, read_end.get(), 0);
    ::posix_spawn_file_actions_adddup2(&files, memory_.get(), kPageFd);
    arguments.insert(arguments.begin(), program);
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &files, nullptr, words.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&files);
    EXPECT_TRUE(fakes::eventually([this] { return page_->ready > 0; }));
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::munmap(page_, sizeof(SharedPage));
  }

  pid_t pid() const { return pid_; }
  SharedPage& page() { return *page_; }

  /// Wait until the main thread is in a system call.
  bool reaches(const std::string& call) const {
    return fakes::eventually([&] { return thread_facts(pid_, pid_).syscall == call; });
  }
  /// Return whether it goes on counting.
  bool goes_on() {
    const std::uint64_t before = page_->turns;
    return fakes::eventually([&] { return page_->turns > before + 1; });
  }
  char state() const { return thread_state(pid_, pid_); }

  /// End its input, and return its wait status.
  int end() {
    input_.reset();
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return status;
  }
  bool ends_well() {
    const int status = end();
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }

 private:
  FileDescriptor memory_;
  FileDescriptor input_;
  SharedPage* page_ = nullptr;
  pid_t pid_ = 0;
};

inline ProcessStacks stacks_of(const Target& target, const TakeStacksOptions& options = {}) {
  auto stacks = take_stacks({target.pid()}, soon(), options);
  EXPECT_TRUE(stacks.has_value());
  return stacks ? stacks->at(0) : ProcessStacks{};
}

/// Return the frame whose function begins with `name`, or nullptr.
inline const StackFrame* frame_named(const ThreadStack& thread, std::string_view name) {
  const auto found =
      std::find_if(thread.frames.begin(), thread.frames.end(),
                   [&](const StackFrame& frame) { return frame.function.starts_with(name); });
  return found == thread.frames.end() ? nullptr : &*found;
}

/// Return the functions of a thread, one a line, for the message of a failed test.
inline std::string functions_of(const ThreadStack& thread) {
  std::string text = thread.facts.note + "\n";
  for (const StackFrame& frame : thread.frames)
    text += frame.function + " [" + frame.module + "] " + frame.file + "\n";
  return text;
}

}  // namespace train::stacks_test
