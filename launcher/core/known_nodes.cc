#include "launcher/core/known_nodes.h"

#include <set>

namespace train {

KnownNodes::KnownNodes(const std::vector<std::string>& nodes) {
  for (const std::string& address : nodes)
    nodes_.try_emplace(address, Node{NodeId{static_cast<int>(nodes_.size())}});
}

KnownNodes::Change KnownNodes::list(const std::vector<std::string>& nodes) {
  Change change;
  const std::set<std::string> listed(nodes.begin(), nodes.end());
  for (auto& [address, node] : nodes_) {
    const bool now = listed.contains(address);
    if (now == node.listed) continue;
    node.listed = now;
    (now ? change.back : change.vanished).push_back(node.id);
  }
  for (const std::string& address : nodes) {
    if (nodes_.contains(address)) continue;
    if (nodes_.size() == kKnownNodesMax) {
      ++change.too_many;
      continue;
    }
    const NodeId id{static_cast<int>(nodes_.size())};
    nodes_.emplace(address, Node{id});
    change.found.emplace_back(id, address);
  }
  return change;
}

}  // namespace train
