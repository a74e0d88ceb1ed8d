// Asks py-spy where many processes are in Python, while their native stacks are unwound. py-spy
// only reads their memory, and stops none of them: a thread that runs meanwhile may have moved on
// since its native stack was captured.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "lib/base/time.h"
#include "lib/stacks/process_stacks.h"

namespace train {

class PythonDumps {
 public:
  /// Begin to ask about the processes, until `deadline`.
  PythonDumps(std::vector<pid_t> pids, TimePoint deadline);

  /// Wait for the answers, and add Python's frames, or a note that says why there are none. The
  /// stacks are those of the processes, in their order. Blocks until the deadline. Call this once.
  void add_to(std::vector<ProcessStacks>& stacks);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

inline constexpr std::size_t kPythonDumpsAtATime = 4;
inline constexpr Duration kPythonDumpWithin = seconds{3};     // of one process
inline constexpr std::size_t kPythonDumpBytesMax = 4u << 20;  // of 10,000 frames

}  // namespace train
