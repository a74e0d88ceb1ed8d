// Makes the stacks of workers that crash, with one program that unwinds at a time: many ranks of a
// node often crash in the same second. What comes while it runs goes to the next program together,
// which reads each of their files once. Main thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/supervisor/workers/crash_reader.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

class CrashUnwinder {
 public:
  /// Makes a stack of each capture, in their order. Blocks: it runs on a thread of its own, which
  /// may outlive this object.
  using Unwind = std::function<std::vector<CrashStack>(const std::vector<ProcessCapture>& captures,
                                                       TimePoint deadline)>;
  explicit CrashUnwinder(asio::any_io_executor executor, Unwind unwind = crash_stacks)
      : changed_(std::move(executor)), unwind_(std::move(unwind)) {}

  /// Make the stack of a crash until `deadline`. The flow must end before this object.
  Task<CrashStack> stack_of(ProcessCapture capture, TimePoint deadline);

 private:
  struct Crash {
    ProcessCapture capture;
    TimePoint deadline;
    std::optional<CrashStack> stack = std::nullopt;
  };
  /// Make the stacks of all crashes that wait.
  Task<Unit> unwind_waiting();

  Notifier changed_;
  const Unwind unwind_;
  bool unwinds_ = false;
  std::vector<std::shared_ptr<Crash>> waiting_;  // in the order of their coming
};

}  // namespace train
