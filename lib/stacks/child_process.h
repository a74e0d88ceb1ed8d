// A program that this process starts, waits for and ends: trainrun-unwind, or py-spy.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// Return the milliseconds until a deadline, rounded up, as poll(2) takes them.
int milliseconds_until(TimePoint deadline);

/// Which of our descriptors the program gets as its own. -1: /dev/null, or no descriptor 3.
struct ChildFiles {
  int input = -1;
  int output = -1;
  int errors = -1;
  int third = -1;  // becomes descriptor 3
};

class ChildProcess {
 public:
  /// Start the program `words[0]`, a path, with only these descriptors, no environment (libdw would
  /// ask the servers of DEBUGINFOD_URLS), and default signals. `own_group`: what it starts is
  /// killed with it, unless that leaves its process group.
  static Result<ChildProcess> start(std::vector<std::string> words, const ChildFiles& files,
                                    bool own_group = false);

  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        handle_(std::move(other.handle_)),
        own_group_(other.own_group_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// Return a descriptor that poll(2) finds readable once the program has ended.
  int handle() const { return handle_.get(); }

  /// Wait until it has ended, and kill it at the deadline. Return what went wrong, or "". Call this
  /// once.
  std::string wait_or_kill(TimePoint deadline);

 private:
  struct End;

  ChildProcess(pid_t pid, FileDescriptor handle, bool own_group)
      : pid_(pid), handle_(std::move(handle)), own_group_(own_group) {}
  End wait(TimePoint deadline) const;

  pid_t pid_;  // 0: waited for
  FileDescriptor handle_;
  bool own_group_;
};

}  // namespace train
