// The nodes of a run: which are reachable, lost or draining, and what a new attempt may use of
// them. A node's link decides whether its silence means that it is lost; FailurePolicy decides
// which nodes fail too often.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/failure_policy.h"
#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"

namespace train {

class NodePool {
 public:
  /// `expected`: how many daemons the job names. `ingest`: what is placed beside the workers.
  /// `open`: more may be found.
  explicit NodePool(std::size_t expected, std::vector<IngestNeed> ingest = {}, bool open = false)
      : expected_(expected), open_(open), ingest_(std::move(ingest)) {}

  /// Return whether it has another capacity than before.
  bool up(const NodeUp& event);
  void down(NodeId node);
  /// One more is named.
  void found() { ++expected_; }
  /// A node that is not up is not named any more.
  void vanished(NodeId node);
  /// Return how many daemons are named.
  std::size_t expected() const { return expected_; }
  /// Mark a node as draining. Return false if it already was.
  bool drain(NodeId node) { return draining_.insert(node).second; }
  /// Remember the name of a node that an earlier launcher knew and that has not answered yet.
  void remember_name(NodeId node, std::string name) { names_[node] = std::move(name); }

  bool draining(NodeId node) const { return draining_.count(node) != 0; }
  bool lost(NodeId node) const { return lost_.contains(node); }
  /// Return the node's name, or "node 3" if it is not known.
  std::string name(NodeId node) const;
  /// Return the address at which others reach a node that is up.
  const std::string& address(NodeId node) const { return up_.at(node).address; }
  /// Return whether daemons that the job names have yet to answer. A lost one does not count: we
  /// already waited for it while it was silent.
  bool may_grow() const { return up_.size() + lost_.size() < expected_; }

  /// Return where workers may go now. Quarantined nodes are left out as long as there is room
  /// without them, nodes where a worker is stuck always.
  std::vector<NodeCapacity> usable(const ScalingConfig& scaling, const FailurePolicy& policy) const;
  /// Place workers on the usable nodes: ranks stay on the nodes of the newest attempt.
  Placement placement(const ScalingConfig& scaling, const std::vector<NodeCapacity>& usable) const {
    return place(scaling, usable, nodes_max(), placed_, ingest_);
  }
  /// Return the owner's share: see QueuePlace.
  int owner_share() const;
  /// Return the runs that wait before this one, on any node, each once.
  std::vector<PoolRun> runs_before() const;
  /// Set the placement of the newest attempt.
  void placed(Placement placement) { placed_ = std::move(placement); }
  /// Return how many workers would fit now.
  int capacity(const ScalingConfig& scaling, const FailurePolicy& policy) const {
    return place(scaling, usable(scaling, policy), nodes_max(), {}, ingest_).world_size;
  }

 private:
  /// Return how many nodes there can be: with fewer, nothing is impossible.
  std::size_t nodes_max() const {
    return open_ ? std::numeric_limits<std::size_t>::max() : expected_;
  }

  std::size_t expected_;
  bool open_;
  std::vector<IngestNeed> ingest_;
  std::map<NodeId, NodeUp> up_;
  std::set<NodeId> lost_, draining_;
  std::map<NodeId, std::string> names_;  // of all nodes ever known
  Placement placed_;
};

}  // namespace train
