// Decides how to take a group down: when to kill its workers at the latest, and, once somebody no
// longer wants to wait, how long to wait for supervisors that still store shards.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/run_events.h"
#include "lib/base/time.h"

namespace train {

/// How long to wait for supervisors that may be storing shards, once no worker is left.
inline constexpr Duration kShardsTimeout = seconds(3);

class Teardown {
 public:
  /// Ask all workers to end within `grace`. A second call replaces the first.
  void begin(Duration grace, std::string reason, TimePoint now);
  /// Do not wait for storage that hangs, because somebody asked a second time. May be called before
  /// begin().
  void escalate() { escalated_ = true; }
  bool escalated() const { return escalated_; }

  /// Return when the workers were killed at the latest.
  TimePoint kill_at() const { return kill_at_; }
  /// Return the order, for the first time or again, to a node that may have workers.
  StopGroup order_for(Attempt attempt, NodeId node, TimePoint now) const;

  enum class Shards { Awaited, GivenUpNow, GivenUp };
  /// Return whether to wait for shards that supervisors may still be storing. GivenUpNow: the
  /// answer is no for the first time.
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
