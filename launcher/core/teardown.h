// How a group is taken down: when its workers are killed at the latest, and, once somebody does not
// want to wait, how long for supervisors that still store shards.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/run_events.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kShardsTimeout =
    seconds(3);  // for supervisors that may be storing shards, once no worker is left

class Teardown {
 public:
  /// All are asked to end within `grace`. Again: as it says now.
  void begin(Duration grace, std::string reason, TimePoint now);
  /// Somebody asked a second time: storage that hangs is not waited for. Perhaps before begin().
  void escalate() { escalated_ = true; }
  bool escalated() const { return escalated_; }

  /// What is asked of a node where workers may be, now or again.
  StopGroup order_for(Attempt attempt, NodeId node, TimePoint now) const;

  enum class Shards { Awaited, GivenUpNow, GivenUp };
  /// Whether what supervisors may still be storing is waited for. GivenUpNow: the first time that
  /// it is not.
  Shards shards(bool any_worker_left, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  TimePoint kill_at_{};
  std::string reason_;
  bool escalated_ = false;
  std::optional<TimePoint> awaited_since_;  // escalated, and no worker is left
  bool given_up_ = false;
};

}  // namespace train
