// Copies the registers and stacks of a process's threads, each of which it stops for a moment.
// Linux lets a process do so to its descendants (Yama's scope 1), and root to all. Nothing is
// injected, and the process goes on as if nothing had happened, except that after a stop
// epoll_wait(2), and recv(2) with SO_RCVTIMEO, return EINTR (signal(7)).
#pragma once

#include <future>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/stacks/process_capture.h"

namespace train {

struct CaptureLimits {
  std::size_t threads_max = kCapturedThreadsMax;
  std::size_t stack_bytes_max = kCapturedStackBytesMax;
  std::size_t process_bytes_max = kCapturedProcessBytesMax;
  Duration stop_wait = milliseconds{200};  // for one thread
};

/// A capture that another thread makes: only the end of a tracer detaches all of its threads. If
/// /proc does not answer, that thread stays behind.
class BegunCapture {
 public:
  /// Begin to capture a process, until `deadline` at the latest.
  BegunCapture(pid_t pid, TimePoint deadline, const CaptureLimits& limits);

  /// Wait for the capture; call it once. What could not be captured is told in the notes of the
  /// process and of its threads. An error means that there are no threads at all: NotFound if there
  /// is no such process, Timeout if /proc did not answer.
  Result<ProcessCapture> finish();

 private:
  pid_t pid_;
  TimePoint give_up_;
  std::future<Result<ProcessCapture>> captured_;
};

/// Capture a process. Blocks.
Result<ProcessCapture> capture_process(pid_t pid, TimePoint deadline,
                                       const CaptureLimits& limits = {});

}  // namespace train
