#include "launcher/core/node_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

bool NodePool::up(const NodeUp& event) {
  const NodeId node = event.capacity.node;
  const auto known = up_.find(node);
  const bool changed = known == up_.end() || known->second.capacity != event.capacity;
  up_[node] = event;
  names_[node] = event.capacity.name;
  lost_.erase(node);
  const bool drains_no_more = !event.capacity.draining && draining_.erase(node) > 0;
  return changed || drains_no_more;
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
  const auto all = [&](bool quarantined_too) {
    std::vector<NodeCapacity> nodes;
    nodes.reserve(up_.size());
    for (const auto& [id, node] : up_)
      if (!draining(id) && !policy.stuck(id) && (quarantined_too || !policy.quarantined(id)))
        nodes.push_back(node.capacity);
    return nodes;
  };
  if (!policy.any_quarantined()) return all(true);
  std::vector<NodeCapacity> good = all(false);
  return place(scaling, good, nodes_max(), {}, ingest_).world_size > 0 ? good : all(true);
}

int NodePool::owner_share() const {
  Resources total, has, wants;
  for (const auto& [id, node] : up_) {
    total.cpu += node.capacity.total.cpu;
    total.gpu += node.capacity.total.gpu;
    has.cpu += node.owner_has.cpu;
    has.gpu += node.owner_has.gpu;
    wants.cpu = std::max(wants.cpu, node.owner_wants.cpu);
    wants.gpu = std::max(wants.gpu, node.owner_wants.gpu);
  }
  const auto part = [](double some, double all) { return all > 0 ? some / all : 0.0; };
  const double share =
      std::max(part(has.cpu + wants.cpu, total.cpu), part(has.gpu + wants.gpu, total.gpu));
  if (!(share < kShareMax / 1000)) return kShareMax;  // or no number: a node may say anything
  return static_cast<int>(std::max(0.0, 1000 * share));
}

std::vector<PoolRun> NodePool::runs_before() const {
  std::map<std::string, PoolRun> runs;
  for (const auto& [id, node] : up_)
    for (const PoolRun& run : node.runs) runs.insert_or_assign(run.run_id, run);
  std::vector<PoolRun> all;
  for (auto& [id, run] : runs) all.push_back(std::move(run));
  return all;
}

}  // namespace train
