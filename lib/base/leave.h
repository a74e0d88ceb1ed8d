// This file ends a process that still has flows, threads and peers.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace train {

/// Flush stdio and end the process without running destructors. Everything that matters is already
/// on disk, as it must be for a SIGKILL. Unwinding would wait for storage calls that never return,
/// and would tell flows that their peers are gone; a traind would then kill workers that should
/// continue (Candea and Fox, "Crash-only software", HotOS 2003).
[[noreturn]] inline void leave_without_unwinding(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace train
