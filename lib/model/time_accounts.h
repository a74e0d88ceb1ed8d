// What the time of a run's workers was used for. Each second of each worker's place is booked to
// one use, so that the accounts add up to the whole: launcher/core/attempt_time says by what rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "lib/base/time.h"

namespace train {

enum class TimeUse : std::uint8_t {
  Step,        // productive: training, and its result was kept
  Start,       // from the grant of the place until the loop's first batch, step or report
  Restore,     // reading the checkpoint to start from
  Data,        // waiting for batches
  Collective,  // waiting in calls that all ranks make
  Checkpoint,  // handing over checkpoints, and waiting for them
  Validate,
  Report,   // waiting in report() for capacity
  Lost,     // training that the next attempt must do again
  Down,     // after a failure: until it was noticed, and until workers were placed again
  Hung,     // the silence of a group that ended because a rank hung
  Paused,   // ranks wait until all have come to rest
  Unknown,  // of a program without the SDK
  Other     // phases that the program named, waiting for a rank of the same node, the end
};

/// The names that files and people use.
inline constexpr std::array<std::string_view, 14> kTimeUses{
    "step",   "start", "restore", "data", "collective", "checkpoint", "validate",
    "report", "lost",  "down",    "hung", "paused",     "unknown",    "other"};

constexpr std::string_view to_string(TimeUse use) {
  return kTimeUses[static_cast<std::size_t>(use)];
}

constexpr std::optional<TimeUse> parse_time_use(std::string_view name) {
  for (std::size_t i = 0; i < kTimeUses.size(); ++i)
    if (kTimeUses[i] == name) return static_cast<TimeUse>(i);
  return std::nullopt;
}

/// The seconds of all workers together.
class TimeAccounts {
 public:
  Duration& operator[](TimeUse use) { return times_[static_cast<std::size_t>(use)]; }
  Duration operator[](TimeUse use) const { return times_[static_cast<std::size_t>(use)]; }
  TimeAccounts& operator+=(const TimeAccounts& other) {
    for (std::size_t i = 0; i < times_.size(); ++i) times_[i] += other.times_[i];
    return *this;
  }
  Duration total() const { return std::accumulate(times_.begin(), times_.end(), Duration{}); }
  /// Return the share of a use, from 0 to 1; 0 if nothing was booked.
  double share(TimeUse use) const {
    const Duration whole = total();
    return whole == Duration{}
               ? 0
               : static_cast<double>((*this)[use].count()) / static_cast<double>(whole.count());
  }
  bool operator==(const TimeAccounts&) const = default;

 private:
  std::array<Duration, kTimeUses.size()> times_{};
};

}  // namespace train
