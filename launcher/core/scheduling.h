// Decides when to place the next attempt: not before its backoff is over, nor before the daemons
// that the job names have had a moment to answer. Also decides how often to tell the user what the
// run waits for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/time.h"

namespace train {

/// How long to wait for named daemons that have not answered before starting without them.
inline constexpr Duration kAllNodesWait = seconds(3);
/// How often at most to look for room while such daemons may still answer, and always for each
/// hundred nodes: each look examines all nodes, and each node may have news.
inline constexpr Duration kLookWhileNodesComeEvery = milliseconds(100);
inline constexpr Duration kLookEveryHundredNodes = milliseconds(2);
/// So many times as long if ingest workers have to be placed beside the ranks: that takes many
/// tries.
inline constexpr int kLookWithIngest = 50;
/// The shortest and longest wait for a node whose room another run took, less than doubled.
inline constexpr Duration kRoomTakenFirst = seconds(1), kRoomTakenMax = seconds(30);
inline constexpr Duration kWaitingNoteFirst = seconds(1), kWaitingNoteMax = seconds(60);

class Scheduling {
 public:
  /// `restarts`: how many there were under earlier launchers.
  explicit Scheduling(TimePoint now, int restarts = 0, bool has_ingest = false)
      : not_before_(now), has_ingest_(has_ingest), restarts_(restarts) {}

  /// Let another attempt begin after `delay`.
  void restart(TimePoint now, Duration delay) {
    ++restarts_;
    not_before_ = now + delay;
  }
  /// Let no attempt begin before release().
  void hold() { held_ = true; }
  void release(TimePoint now) {
    if (std::exchange(held_, false)) not_before_ = std::max(not_before_, now);
  }
  /// Return the delay after a node had less room than it had offered: other runs want it too.
  /// Longer each time in a row. `run`: its id; different runs wait differently long, so that they
  /// do not take half of each other's nodes again.
  Duration delay_for_room(std::string_view run);
  void had_room() { room_delay_ = kRoomTakenFirst; }
  /// Return how often the group has been restarted.
  int restarts() const { return restarts_; }
  void adopt(int restarts) { restarts_ = restarts; }
  bool backing_off(TimePoint now) const { return held_ || now < not_before_; }
  /// Return whether the daemons that the job names have had their time to answer.
  bool nodes_waited_for(TimePoint now) const { return now >= not_before_ + kAllNodesWait; }
  /// Return whether to look for room now, on so many nodes. While they may still arrive or tell of
  /// more room, perhaps by the thousand, one look serves all that do so within a moment.
  bool looks(TimePoint now, bool nodes_may_come, std::size_t nodes);
  /// Handle a lack of room. Return true if it is time to tell the user (again).
  bool says_waiting(TimePoint now);
  /// Record that an attempt has begun.
  void placed();

  std::optional<TimePoint> next_deadline(TimePoint now, bool nodes_may_come) const;

 private:
  TimePoint not_before_;  // backoff
  bool held_ = false;
  bool has_ingest_;
  int restarts_;
  Duration room_delay_ = kRoomTakenFirst;  // the next one
  std::optional<TimePoint> looked_at_ = {};
  std::optional<TimePoint> look_at_ = {};  // a look was put off until then
  std::optional<TimePoint> note_at_ = {};  // when to tell the user again
  Duration note_every_ = kWaitingNoteFirst;
};

}  // namespace train
