// Decides when a run stops because the time of its batch job comes to its end. Pure.
#pragma once

#include <algorithm>

#include "lib/base/time.h"

namespace train {

class WallTime {
 public:
  /// `before_end`: the spec's cluster.stop_before_end, above 0; `end`: of the job, as far as it is
  /// known at `began`, when the launcher began.
  WallTime(Duration before_end, Duration stop_grace, TimePoint began, TimePoint end)
      : before_end_(before_end), stop_grace_(stop_grace), began_(began), end_(end) {}

  /// Somebody has changed the job's limit.
  void end_is(TimePoint end) { end_ = end; }
  /// A checkpoint took so long, from the first shard's arrival until it was committed.
  void checkpoint_took(Duration time) { longest_checkpoint_ = std::max(longest_checkpoint_, time); }

  /// Return when to stop: before_end before the end, or as much earlier as a stop may take. Never
  /// in the first three quarters of the time that the launcher has had at first: a job that is
  /// shorter than what the spec says must get somewhere, too.
  TimePoint stop_at() const {
    const Duration needed = std::max(before_end_, stop_grace_ + 2 * longest_checkpoint_);
    const Duration whole = std::max(end_ - began_, Duration{0});
    return end_ - std::min(needed, whole / 4);
  }
  TimePoint end() const { return end_; }

 private:
  Duration before_end_, stop_grace_, longest_checkpoint_{0};
  TimePoint began_, end_;
};

}  // namespace train
