// The limit on open files (RLIMIT_NOFILE). Ours is raised to what is allowed; the programs that we
// start get the one that we were started with: select(2) and loops over all descriptors do not bear
// a large one.
#pragma once

#include <vector>

namespace train {

/// Raise the soft limit to the hard one. Once, at the start of a process.
void raise_open_files();
/// Give this process the limit back that it was started with; async-signal-safe, for the child
/// between fork and exec.
void restore_open_files();

/// Descriptors that are kept for what must not fail for want of them.
class ReservedFiles {
 public:
  explicit ReservedFiles(int count) : count_(count) { refill(); }
  ~ReservedFiles() { release(); }
  ReservedFiles(const ReservedFiles&) = delete;
  ReservedFiles& operator=(const ReservedFiles&) = delete;

  /// Close them: the caller may open as many.
  void release();
  /// Take them again, as many as there are.
  void refill();

 private:
  int count_;
  std::vector<int> files_;
};

}  // namespace train
