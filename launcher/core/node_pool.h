// The nodes of a run: which are in reach, lost or draining, and what a new attempt may use of them.
// Whether one that is silent counts as lost is decided by its link; which ones fail too often, by
// FailurePolicy.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/failure_policy.h"
#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"

namespace train {

class NodePool {
 public:
  /// `expected`: how many daemons the job names.
  explicit NodePool(std::size_t expected) : expected_(expected) {}

  void up(const NodeUp& event);
  void down(NodeId node);
  /// False where it was draining already.
  bool drain(NodeId node) { return draining_.insert(node).second; }
  /// Of one that an earlier launcher knew, and that has not answered yet.
  void remember_name(NodeId node, std::string name) { names_[node] = std::move(name); }

  bool draining(NodeId node) const { return draining_.count(node) != 0; }
  /// "node 3" where it was never heard of.
  std::string name(NodeId node) const;
  /// How others reach a node that is in reach.
  const std::string& address(NodeId node) const { return up_.at(node).address; }
  /// Whether daemons that the job names have still to answer. One that is lost was waited for
  /// already, when it was silent.
  bool may_grow() const { return up_.size() + lost_.size() < expected_; }

  /// Where workers may go now. Nodes that are quarantined are left out as long as there is room
  /// without them.
  std::vector<NodeCapacity> usable(const ScalingConfig& scaling, const FailurePolicy& policy) const;
  /// What place() makes of those nodes: ranks stay on the nodes of the newest attempt.
  Placement placement(const ScalingConfig& scaling, const FailurePolicy& policy) const {
    return place(scaling, usable(scaling, policy), expected_, placed_);
  }
  /// Of the newest attempt.
  void placed(Placement placement) { placed_ = std::move(placement); }
  /// How many workers would fit now.
  int room(const ScalingConfig& scaling, const FailurePolicy& policy) const {
    return place(scaling, usable(scaling, policy), expected_, {}).world_size;
  }

 private:
  std::size_t expected_;
  std::map<NodeId, NodeUp> up_;
  std::set<NodeId> lost_, draining_;
  std::map<NodeId, std::string> names_;  // of all that were ever heard of
  Placement placed_;
};

}  // namespace train
