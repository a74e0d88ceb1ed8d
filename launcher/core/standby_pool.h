// Tracks processes that wait for the next attempt. Once an attempt trains, they are started in
// advance on the nodes of its ranks. They belong to the next attempt's supervisors, which use them
// when it begins.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "launcher/core/rank_table.h"
#include "lib/base/time.h"

namespace train {

/// The wait, without progress, from the last rank's hello to starting standby processes.
inline constexpr Duration kStandbyDelay = seconds(3);

class StandbyPool {
 public:
  /// `wanted`: scaling_config.standby_workers.
  explicit StandbyPool(int wanted) : wanted_(wanted) {}

  /// Return the nodes that should start standby processes now. All ranks must have joined through
  /// the SDK: a program without it would train instead of waiting. The group must also have made
  /// progress, or have had a moment for its own start, which standby processes would slow down.
  /// `usable`: whether a node takes new processes.
  template <class Usable>
  std::vector<NodeId> advance(const RankTable& ranks, bool progressed, Usable&& usable,
                              TimePoint now) {
    if (!due(ranks, progressed, now)) return {};
    for (int i = 0; i < wanted_; ++i) {
      const NodeId node = ranks.all()[static_cast<std::size_t>(i) % ranks.size()].node;
      if (usable(node)) ++waiting_[node];
    }
    return nodes();
  }
  /// Record that the attempt they waited for begins. Return the nodes where some waited.
  std::vector<NodeId> attempt_began();
  /// Record that no standby process is left on the node. Return false if there was none.
  bool forget(NodeId node) { return waiting_.erase(node) > 0; }
  /// Return true once, when an attempt ends whose program could not use any.
  bool was_useless(const RankTable& ranks);

  int waiting_on(NodeId node) const;
  std::vector<NodeId> nodes() const;
  std::optional<TimePoint> next_deadline() const;

 private:
  bool due(const RankTable& ranks, bool progressed, TimePoint now);

  int wanted_ = 0;
  std::map<NodeId, int> waiting_;    // how many wait there
  bool asked_ = false;               // in this attempt
  std::optional<TimePoint> ask_at_;  // at the latest
  bool told_useless_ = false;
};

}  // namespace train
