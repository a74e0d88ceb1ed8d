// A program of the user's that train-run starts on its own machine, in a process group of its own:
// Ctrl-C is for train-run alone. Calls block; use it from a thread that may.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

class ChildProgram {
 public:
  struct Options {
    std::vector<std::string> argv = {};  // a name without '/' is looked up in the PATH below
    std::string folder = {};             // where it starts
    std::map<std::string, std::string> environment = {};
    int input = -1;    // its standard input; −1: /dev/null
    int answers = -1;  // its standard output; −1: its output, with what it writes to stderr
    /// Kill it when the calling thread ends, and so when train-run dies.
    bool dies_with_us = false;
  };
  struct End {
    bool killed = false;
    int status = 0;  // exit code, or signal number
    bool good() const { return !killed && status == 0; }
  };

  /// The error says why it cannot be started.
  static Result<ChildProgram> start(const Options& options);

  /// What becomes readable when there is output, or −1 once there will be no more, and when it
  /// ends.
  int output_handle() const { return open_ ? output_.get() : -1; }
  int end_handle() const { return handle_.get(); }
  /// Take the output that there is now. Return whether it has ended; then reap it.
  bool look(const std::function<void(std::string_view)>& output);

  /// Wait until it ends, or `until()`, which may move, has passed. Give what it writes on both
  /// streams to `output`. Return whether it has ended; then reap it.
  bool wait(const std::function<TimePoint()>& until,
            const std::function<void(std::string_view)>& output);
  /// Signal the process group.
  void signal(int number) const;
  /// Wait for the end of the program, however long it takes.
  End reap(const std::function<void(std::string_view)>& output);

 private:
  bool has_ended() const;
  bool read_output(const std::function<void(std::string_view)>& output);

  pid_t pid_ = 0;
  FileDescriptor handle_, output_;
  bool open_ = true;  // more output may come
};

/// Return "exited with 3", "was killed by SIGKILL".
std::string end_text(const ChildProgram::End& end);

/// The last lines of an output, each of bounded length, without the empty ones.
class LastOutput {
 public:
  static constexpr std::size_t kLinesMax = 20, kLineBytesMax = 1u << 10;

  void add(std::string_view data);
  /// Return them as text in UTF-8, oldest first.
  std::vector<std::string> lines() const;
  /// Return the newest; "": there is none.
  std::string last() const;

 private:
  std::string kept_;
};

}  // namespace train
