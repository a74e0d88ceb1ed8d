// The interface to the nodes of a run, for whatever talks to them. ClusterLinks has the
// connections.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/wire/frame.h"

namespace train {

class NodeLinks {
 public:
  virtual ~NodeLinks() = default;
  /// Send a frame. It is dropped while the daemon is away.
  virtual void send(NodeId node, const Frame& frame) = 0;
  /// Return the node's own name, or its endpoint until it has answered.
  virtual std::string name(NodeId node) const = 0;
  /// Return the node with this name, if it answers.
  virtual std::optional<NodeId> find(const std::string& name) const = 0;
  /// Return the nodes that answer.
  virtual std::vector<NodeId> up() const = 0;
};

}  // namespace train
