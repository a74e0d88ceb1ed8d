#include "launcher/core/group_growth.h"

#include <utility>

namespace train {

void GroupGrowth::attempt_began() {
  grow_at_.reset();
  capacity_changed_ = true;
}

std::optional<int> GroupGrowth::advance(const RankTable& ranks,
                                        const std::function<int()>& capacity, TimePoint now) {
  const int world_size = static_cast<int>(ranks.size());
  if (std::exchange(capacity_changed_, false)) grow_at_ = now + kGrowDelay;
  // A rank of a program that does not use the SDK, or has not reported yet, cannot be asked to meet
  // the others at a checkpoint, and these would wait for it without a deadline.
  if (!grow_at_ || now < *grow_at_ || ranks.any_silent()) return std::nullopt;
  grow_at_.reset();
  if (ranks.any_ended()) return std::nullopt;  // no checkpoint will be complete any more
  const int size = capacity();
  return size > world_size ? std::optional(size) : std::nullopt;
}

std::optional<TimePoint> GroupGrowth::next_deadline(TimePoint now) const {
  // Once `grow_at_` has passed, the next report triggers the growth.
  return grow_at_ && now < *grow_at_ ? grow_at_ : std::nullopt;
}

}  // namespace train
