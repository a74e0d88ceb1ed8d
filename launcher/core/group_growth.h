// Decides when an elastic group is asked to resize because there is room for more workers: once no
// more news of room has come for a while, and where its ranks can meet at a checkpoint, so that
// nothing is lost.
#pragma once

#include <functional>
#include <optional>

#include "launcher/core/rank_table.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kGrowDelay =
    seconds(3);  // from the last news of more room to asking the group to resize

class GroupGrowth {
 public:
  /// Nodes came, went, or may be used again.
  void capacity_changed() { capacity_changed_ = true; }
  void attempt_began();
  /// Return the size to grow to now. `room` returns how many workers would fit; it is called only
  /// where that matters.
  std::optional<int> advance(const RankTable& ranks, const std::function<int()>& capacity,
                             TimePoint now);
  std::optional<TimePoint> next_deadline(TimePoint now) const;

 private:
  bool capacity_changed_ = false;  // since room was counted
  std::optional<TimePoint> grow_at_;
};

}  // namespace train
