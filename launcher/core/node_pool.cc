#include "launcher/core/node_pool.h"

#include <fmt/format.h>

namespace train {

void NodePool::up(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  up_[node] = event;
  names_[node] = event.capacity.name;
  lost_.erase(node);
  if (!event.capacity.draining) draining_.erase(node);
}

void NodePool::down(NodeId node) {
  up_.erase(node);
  lost_.insert(node);
}

void NodePool::vanished(NodeId node) {
  up_.erase(node);
  lost_.erase(node);
  draining_.erase(node);
  --expected_;
}

std::string NodePool::name(NodeId node) const {
  const auto found = names_.find(node);
  return found == names_.end() ? fmt::format("node {}", node.value) : found->second;
}

std::vector<NodeCapacity> NodePool::usable(const ScalingConfig& scaling,
                                           const FailurePolicy& policy) const {
  std::vector<NodeCapacity> all, good;
  for (const auto& [id, node] : up_) {
    if (draining(id) || policy.stuck(id)) continue;
    all.push_back(node.capacity);
    if (!policy.quarantined(id)) good.push_back(node.capacity);
  }
  if (good.size() == all.size()) return all;
  return place(scaling, good, nodes_max(), {}, ingest_).world_size > 0 ? good : all;
}

}  // namespace train
