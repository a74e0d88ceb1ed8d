// Follows a worker from its death until nothing of it is left. Decides when to tell the launcher
// how it ended, and when nothing more comes from it.
#pragma once

#include <optional>

#include "lib/base/time.h"

namespace train {

/// How long the message about a death waits for the worker's last lines of output.
inline constexpr Duration kOutputDelayMax = milliseconds(100);
/// How long to wait for pipes that something outside our reach keeps open.
inline constexpr Duration kOutputEndMax = seconds(2);
/// How long to wait for the stack of a crash. The death itself is told before: whatever follows
/// from it must not be heard first.
inline constexpr Duration kCrashStackMax = seconds(8);

class WorkerEnding {
 public:
  explicit WorkerEnding(TimePoint died) : died_(died) {}

  /// What is left of the worker.
  struct Rest {
    bool output_ended = false;
    bool connected = false;  // its SDK's frames are not all read yet
    bool staging = false;    // one of its checkpoints is being stored
    bool unwinding = false;  // a stack is being made of its crash
  };
  enum class Next {
    Wait,
    TellEnd,  // once
    Drained,  // after TellEnd: nothing more comes
  };
  Next advance(const Rest& rest, TimePoint now);
  /// Return when to look again even if nothing has changed.
  std::optional<TimePoint> next_deadline(const Rest& rest, TimePoint now) const;

 private:
  TimePoint died_;
  bool told_ = false;
};

}  // namespace train
