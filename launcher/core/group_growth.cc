#include "launcher/core/group_growth.h"

#include <utility>

namespace train {

void GroupGrowth::attempt_began() {
  grow_at_.reset();
  reporting_ = 0;
  capacity_changed_ = true;
}

std::optional<int> GroupGrowth::advance(const RankTable& ranks,
                                        const std::function<int()>& capacity, TimePoint now) {
  const int world_size = static_cast<int>(ranks.size());
  if (std::exchange(capacity_changed_, false)) {
    grow_at_ = capacity() > world_size ? std::optional(now + kGrowDelay) : std::nullopt;
  }
  if (!grow_at_ || now < *grow_at_ || !all_report(ranks)) return std::nullopt;
  grow_at_.reset();
  if (ranks.any_ended()) return std::nullopt;  // no checkpoint will be complete any more
  const int size = capacity();
  return size > world_size ? std::optional(size) : std::nullopt;
}

// A rank of a program that does not use the SDK, or has not reported yet, cannot be asked to meet
// the others at a checkpoint, and these would wait for it without a deadline. Ranks that have
// reported are not looked at again: each first report of thousands leads here.
bool GroupGrowth::all_report(const RankTable& ranks) {
  const auto& all = ranks.all();
  const auto reports = [](const RankTable::Entry& rank) { return rank.reports() || !rank.alive(); };
  while (reporting_ < all.size() && reports(all[reporting_])) ++reporting_;
  return reporting_ == all.size();
}

std::optional<TimePoint> GroupGrowth::next_deadline(TimePoint now) const {
  // Once `grow_at_` has passed, the next report triggers the growth.
  return grow_at_ && now < *grow_at_ ? grow_at_ : std::nullopt;
}

}  // namespace train
