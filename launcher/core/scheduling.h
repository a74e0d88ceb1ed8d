// When the next attempt is placed: not before its backoff is over, nor before the daemons that the
// job names have had a moment to answer; and how often the user reads what is waited for.
#pragma once

#include <optional>

#include "lib/base/time.h"

namespace train {

inline constexpr Duration kAllNodesWait =
    seconds(3);  // for daemons that are named but have not answered, before starting without
inline constexpr Duration kPlaceEvery =
    milliseconds(100);  // at most, while such daemons may still come: each look is at all nodes
inline constexpr Duration kWaitingNoteFirst = seconds(1), kWaitingNoteMax = seconds(60);

class Scheduling {
 public:
  /// `restarts`: under earlier launchers.
  explicit Scheduling(TimePoint now, int restarts = 0) : not_before_(now), restarts_(restarts) {}

  /// Another attempt is to begin, after `delay`.
  void restart(TimePoint now, Duration delay) {
    ++restarts_;
    not_before_ = now + delay;
  }
  /// How often the group was restarted.
  int restarts() const { return restarts_; }
  void adopt(int restarts) { restarts_ = restarts; }
  bool backing_off(TimePoint now) const { return now < not_before_; }
  /// The daemons that the job names have had their time to answer.
  bool nodes_waited_for(TimePoint now) const { return now >= not_before_ + kAllNodesWait; }
  /// Whether to look for room now. While nodes may come, by the thousand perhaps, one look serves
  /// all those of a moment.
  bool looks(TimePoint now, bool nodes_may_come);
  /// There is no room. True where it is time to say so (again).
  bool says_waiting(TimePoint now);
  /// An attempt has begun.
  void placed();

  std::optional<TimePoint> next_deadline(TimePoint now, bool nodes_may_come) const;

 private:
  TimePoint not_before_;  // backoff
  int restarts_;
  std::optional<TimePoint> looked_at_ = {};
  bool look_due_ = false;                  // it is put off
  std::optional<TimePoint> note_at_ = {};  // the next one
  Duration note_every_ = kWaitingNoteFirst;
};

}  // namespace train
