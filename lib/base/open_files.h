// This file manages the limit on open files (RLIMIT_NOFILE). We raise our own limit to the allowed
// maximum. The programs that we start get the limit that we were started with, because select(2)
// and loops over all descriptors cannot cope with a large one.
#pragma once

#include <vector>

namespace train {

/// Raise the soft limit to the hard one. Call it once, at the start of a process.
void raise_open_files();
/// Restore the limit that this process was started with. Async-signal-safe, for the child between
/// fork and exec.
void restore_open_files();

/// Descriptors held in reserve for operations that must not fail for lack of them.
class ReservedFiles {
 public:
  explicit ReservedFiles(int count) : count_(count) { refill(); }
  ~ReservedFiles() { release(); }
  ReservedFiles(const ReservedFiles&) = delete;
  ReservedFiles& operator=(const ReservedFiles&) = delete;

  /// Close them, so that the caller may open as many.
  void release();
  /// Take them again, as many as are available.
  void refill();

 private:
  int count_;
  std::vector<int> files_;
};

}  // namespace train
