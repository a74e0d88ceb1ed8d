// This file manages the limit on open files (RLIMIT_NOFILE). We raise our own limit to the allowed
// maximum. Programs that we start get our original limit, because select(2) and loops over all
// descriptors cannot cope with a large one.
#pragma once

#include <vector>

namespace train {

/// Raise the soft limit to the hard one. Call it once, at the start of a process.
void raise_open_files();
/// Restore the limit that this process started with. Async-signal-safe, for the child between fork
/// and exec.
void restore_open_files();

/// For as long as it lives, the process has the limit that it was started with: for posix_spawn(2),
/// which has no hook between fork and exec. Other threads have that limit meanwhile, too.
class InitialOpenFiles {
 public:
  InitialOpenFiles() { restore_open_files(); }
  ~InitialOpenFiles();
  InitialOpenFiles(const InitialOpenFiles&) = delete;
  InitialOpenFiles& operator=(const InitialOpenFiles&) = delete;
};

/// Descriptors held in reserve for operations that must not fail for lack of them.
class ReservedFiles {
 public:
  explicit ReservedFiles(int count) : count_(count) { refill(); }
  ~ReservedFiles() { release(); }
  ReservedFiles(const ReservedFiles&) = delete;
  ReservedFiles& operator=(const ReservedFiles&) = delete;

  /// Close the reserved descriptors, so that the caller can open as many.
  void release();
  /// Reserve them again, as many as are available.
  void refill();

 private:
  int count_;
  std::vector<int> files_;
};

}  // namespace train
