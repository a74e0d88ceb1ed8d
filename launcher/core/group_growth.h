// Decides when to resize an elastic group because there is room for more workers: once no more news
// of room has arrived for a while, and when its ranks can meet at a checkpoint, so that nothing is
// lost.
#pragma once

#include <cstddef>
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
  /// Return the size to grow to now. `capacity` returns how many workers would fit; it is called
  /// only when that matters.
  std::optional<int> advance(const RankTable& ranks, const std::function<int()>& capacity,
                             TimePoint now);
  std::optional<TimePoint> next_deadline(TimePoint now) const;

 private:
  bool all_report(const RankTable& ranks);

  bool capacity_changed_ = false;  // since capacity was last counted
  std::optional<TimePoint> grow_at_;
  std::size_t reporting_ = 0;  // so many ranks, from the first on, have reported or ended
};

}  // namespace train
