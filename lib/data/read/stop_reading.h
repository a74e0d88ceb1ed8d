// Ends waits for object stores early, when nobody wants the rows any more: a store that does not
// answer is tried for minutes.
#pragma once

#include <atomic>

namespace train::data {

/// While it lives, this thread's waits for stores end soon after `stopped` becomes true.
class StopReading {
 public:
  explicit StopReading(const std::atomic<bool>& stopped);
  ~StopReading();
  StopReading(const StopReading&) = delete;
  StopReading& operator=(const StopReading&) = delete;

 private:
  const std::atomic<bool>* const before_;
};

/// Return whether this thread shall stop.
bool reading_is_stopped();

}  // namespace train::data
