#include "launcher/core/scheduling.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace train {

bool Scheduling::looks(TimePoint now, bool nodes_may_come, std::size_t nodes) {
  if (backing_off(now) || (nodes_may_come && !nodes_waited_for(now))) return false;
  const Duration every = std::max(nodes_may_come ? kLookWhileNodesComeEvery : Duration{0},
                                  kLookEveryHundredNodes * static_cast<std::int64_t>(nodes / 100) *
                                      (has_ingest_ ? kLookWithIngest : 1));
  look_at_.reset();
  if (looked_at_ && now < *looked_at_ + every) {
    look_at_ = *looked_at_ + every;
    return false;
  }
  looked_at_ = now;
  return true;
}

Duration Scheduling::delay_for_room(std::string_view run) {
  const Duration least = std::exchange(room_delay_, std::min(2 * room_delay_, kRoomTakenMax));
  return least +
         least * static_cast<std::int64_t>(std::hash<std::string_view>{}(run) % 1000) / 1000;
}

bool Scheduling::says_waiting(TimePoint now) {
  if (note_at_ && now < *note_at_) return false;
  note_at_ = now + note_every_;
  note_every_ = std::min<Duration>(2 * note_every_, kWaitingNoteMax);
  return true;
}

void Scheduling::placed() {
  note_at_.reset();
  note_every_ = kWaitingNoteFirst;
}

std::optional<TimePoint> Scheduling::next_deadline(TimePoint now, bool nodes_may_come) const {
  if (held_) return std::nullopt;
  if (backing_off(now)) return not_before_;
  if (nodes_may_come && !nodes_waited_for(now)) return not_before_ + kAllNodesWait;
  return look_at_ ? look_at_ : note_at_;
}

}  // namespace train
