// This file ends a process that holds flows, threads and peers.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace train {

/// Flush stdio and end the process without running destructors. As after a SIGKILL, what matters is
/// on disk by then. Unwinding would wait for calls to storage that never return, and would tell
/// flows that their peers have gone; a traind would then kill workers that are to go on (Candea and
/// Fox, "Crash-only software", HotOS 2003).
[[noreturn]] inline void leave_without_unwinding(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace train
