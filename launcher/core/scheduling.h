// Decides when the next attempt is placed: not before its backoff is over, nor before the daemons
// that the job names have had a moment to answer. Also decides how often the user reads what the
// run waits for.
#pragma once

#include <optional>

#include "lib/base/time.h"

namespace train {

inline constexpr Duration kAllNodesWait =
    seconds(3);  // for named daemons that have not answered, before starting without them
inline constexpr Duration kLocationEvery =
    milliseconds(100);  // at most, while such daemons may still come: each look is at all nodes
inline constexpr Duration kWaitingNoteFirst = seconds(1), kWaitingNoteMax = seconds(60);

class Scheduling {
 public:
  /// `restarts`: those under earlier launchers.
  explicit Scheduling(TimePoint now, int restarts = 0) : not_before_(now), restarts_(restarts) {}

  /// Have another attempt begin after `delay`.
  void restart(TimePoint now, Duration delay) {
    ++restarts_;
    not_before_ = now + delay;
  }
  /// Return how often the group was restarted.
  int restarts() const { return restarts_; }
  void adopt(int restarts) { restarts_ = restarts; }
  bool backing_off(TimePoint now) const { return now < not_before_; }
  /// Return whether the daemons that the job names have had their time to answer.
  bool nodes_waited_for(TimePoint now) const { return now >= not_before_ + kAllNodesWait; }
  /// Return whether to look for room now. While nodes may come, perhaps by the thousand, one look
  /// serves all that come within a moment.
  bool looks(TimePoint now, bool nodes_may_come);
  /// There is no room. Return true where it is time to say so (again).
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
