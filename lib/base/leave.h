// The end of a process that holds flows, threads and peers.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace train {

/// End the process with what stdio holds written, and without destructors: as after a SIGKILL, what
/// matters is on disk by then. To unwind instead would wait for calls to storage that never return,
/// and would tell flows that their peers have gone, which for a traind means to kill workers that
/// are to go on (Candea and Fox, "Crash-only software", HotOS 2003).
[[noreturn]] inline void leave_without_unwinding(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace train
