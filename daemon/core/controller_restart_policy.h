// Decides whether and when the controller of a detached run is started again after it ended. Pure:
// the shell says how it ended.
#pragma once

#include <optional>

#include "lib/base/time.h"

namespace train {

struct ControllerEnd {
  enum class How { Exited, Killed, Unknown };  // Unknown: it was not our child
  How how = How::Unknown;
  int exit_code = 0;       // Exited: its code; Killed: 128 + the signal
  bool run_ended = false;  // the controller has written the run's outcome
};

class ControllerRestartPolicy {
 public:
  /// Return how long to wait before another controller is started in its place, or none if no other
  /// is to be started.
  std::optional<Duration> ended(const ControllerEnd& end, Duration lived);

 private:
  int failures_ = 0;  // in a row
};

}  // namespace train
