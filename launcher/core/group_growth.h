// Decides when to resize an elastic group because there is room for more workers: once no more news
// of room has arrived for a while, and when its ranks can meet at a checkpoint, so that nothing is
// lost.
#pragma once

#include <functional>
#include <optional>

#include "launcher/core/rank_table.h"
#include "lib/base/time.h"

namespace train {

/// The wait from the last news of more room until the group is asked to resize.
inline constexpr Duration kGrowDelay = seconds(3);

class GroupGrowth {
 public:
  /// Record that nodes came, went, or may be used again.
  void capacity_changed() { capacity_changed_ = true; }
  void attempt_began();
  /// Return the size to grow to now. `capacity` returns how many workers would fit. It looks at all
  /// nodes, so it is called only once the news are stable.
  std::optional<int> advance(const RankTable& ranks, const std::function<int()>& capacity,
                             TimePoint now);
  std::optional<TimePoint> next_deadline(TimePoint now) const;

 private:
  bool capacity_changed_ = false;
  std::optional<TimePoint> grow_at_;
};

}  // namespace train
