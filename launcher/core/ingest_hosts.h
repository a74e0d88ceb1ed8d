// The nodes of an attempt that have ingest workers and no ranks: how far each has got with starting
// its supervisor. Facts only: AttemptController decides what follows. Nobody waits for these nodes,
// and if one is lost, the attempt goes on.
#pragma once

#include <map>

#include "launcher/core/placement.h"

namespace train {

class IngestHosts {
 public:
  enum class Step {
    Preparing,
    Prepared,  // not told to start: the ranks are not told either
    Ordered,
    Started,
    Unknown,  // an earlier launcher began the attempt, and its supervisor has not answered
    Gone,     // it takes no orders but to end
    Lost      // it has no supervisor of the attempt
  };

  /// `adopted`: an earlier launcher began the attempt.
  IngestHosts(const Placement& placement, bool adopted);

  bool has(NodeId node) const { return hosts_.contains(node); }
  /// Precondition of what follows: has(node).
  Step step(NodeId node) const { return hosts_.at(node).step; }
  void set(NodeId node, Step step) { hosts_.at(node).step = step; }
  const PlacedNode& placed(NodeId node) const { return hosts_.at(node).placed; }

  /// Return whether, as far as we know, the node has a supervisor of the attempt.
  bool is_supervised(NodeId node) const { return has(node) && step(node) != Step::Lost; }
  template <class F>
  void for_each_supervised(F&& f) const {
    for (const auto& [node, host] : hosts_)
      if (host.step != Step::Lost) f(node);
  }

 private:
  struct Host {
    PlacedNode placed;  // without workers; its node rank is behind those of nodes with ranks
    Step step;
  };
  std::map<NodeId, Host> hosts_;
};

}  // namespace train
