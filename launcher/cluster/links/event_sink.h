// The interface that takes the events of a run: RunDriver feeds them to the controller.
#pragma once

#include "launcher/core/run_events.h"

namespace train {

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Take in an event, on the driver's thread. Its consequences happen before this returns.
  virtual void feed(const RunEvent& event) = 0;
};

}  // namespace train
