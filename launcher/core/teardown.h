// Decides how a group is taken down: when its workers are killed at the latest, and, once somebody
// does not want to wait, how long to wait for supervisors that still store shards.
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
  /// Ask all workers to end within `grace`. A second call replaces the first.
  void begin(Duration grace, std::string reason, TimePoint now);
  /// Somebody asked a second time: do not wait for storage that hangs. May be called before
  /// begin().
  void escalate() { escalated_ = true; }
  bool escalated() const { return escalated_; }

  /// Return the order, now or again, for a node where workers may be.
  StopGroup order_for(Attempt attempt, NodeId node, TimePoint now) const;

  enum class Shards { Awaited, GivenUpNow, GivenUp };
  /// Return whether to wait for what supervisors may still be storing. GivenUpNow: the first time
  /// that the answer is no.
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
