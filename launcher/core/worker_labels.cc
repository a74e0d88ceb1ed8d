#include "launcher/core/worker_labels.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "launcher/core/label_selector.h"

namespace train {
namespace {

using Index = std::size_t;

/// A matching of workers and nodes that grows by augmenting paths, so that each worker is placed
/// that can be placed at all.
class Matching {
 public:
  Matching(const std::vector<LabelSelector>& selectors, const std::vector<LabelledRoom>& nodes,
           PlacementStrategy strategy)
      : nodes_(nodes),
        spreads_(strategy == PlacementStrategy::Spread ||
                 strategy == PlacementStrategy::StrictSpread),
        kind_of_(selectors.size()),
        on_node_(nodes.size()),
        visited_(nodes.size(), false) {
    std::map<LabelSelector, Index> kinds;
    for (Index worker = 0; worker < selectors.size(); ++worker) {
      const auto [kind, is_new] = kinds.try_emplace(selectors[worker], kinds.size());
      kind_of_[worker] = kind->second;
      if (!is_new) continue;
      std::vector<bool>& fits = fits_.emplace_back(nodes.size());
      for (Index node = 0; node < nodes.size(); ++node)
        fits[node] = accepts(selectors[worker], *nodes[node].labels);
    }
  }

  bool add(Index worker) {
    std::fill(visited_.begin(), visited_.end(), false);
    return place(worker);
  }

  std::vector<int> counts() const {
    std::vector<int> counts;
    for (const std::vector<Index>& workers : on_node_)
      counts.push_back(static_cast<int>(workers.size()));
    return counts;
  }

 private:
  bool has_room(Index node) const {
    return std::cmp_less(on_node_[node].size(), nodes_[node].room);
  }

  std::optional<Index> best_with_room(Index worker) const {
    std::optional<Index> best;
    for (Index node = 0; node < nodes_.size(); ++node) {
      if (!fits_[kind_of_[worker]][node] || !has_room(node)) continue;
      const bool better = !best || (spreads_ ? on_node_[node].size() < on_node_[*best].size()
                                             : nodes_[node].room > nodes_[*best].room);
      if (better) best = node;
    }
    return best;
  }

  /// Find a place, and move others if they have one elsewhere.
  bool place(Index worker) {
    if (const auto node = best_with_room(worker)) {
      on_node_[*node].push_back(worker);
      return true;
    }
    for (Index node = 0; node < nodes_.size(); ++node) {
      if (!fits_[kind_of_[worker]][node] || visited_[node]) continue;
      visited_[node] = true;
      for (Index i = 0; i < on_node_[node].size(); ++i) {
        if (!place(on_node_[node][i])) continue;
        on_node_[node][i] = worker;
        return true;
      }
    }
    return false;
  }

  const std::vector<LabelledRoom>& nodes_;
  const bool spreads_;
  std::vector<Index> kind_of_;           // of each worker: workers of a kind have equal selectors
  std::vector<std::vector<bool>> fits_;  // by kind and node
  std::vector<std::vector<Index>> on_node_;
  std::vector<bool> visited_;
};

std::vector<int> match(const std::vector<LabelSelector>& selectors,
                       const std::vector<LabelledRoom>& nodes, PlacementStrategy strategy,
                       int max) {
  Matching matching(selectors, nodes, strategy);
  int placed = 0;
  for (Index worker = 0; worker < selectors.size() && placed < max; ++worker)
    placed += matching.add(worker) ? 1 : 0;
  return matching.counts();
}

}  // namespace

std::vector<int> place_labelled(const std::vector<LabelSelector>& selectors,
                                const std::vector<LabelledRoom>& nodes, PlacementStrategy strategy,
                                int max) {
  if (strategy == PlacementStrategy::StrictSpread) {
    std::vector<LabelledRoom> one_each = nodes;
    for (LabelledRoom& node : one_each) node.room = std::min(node.room, 1);
    return match(selectors, one_each, strategy, max);
  }
  if (strategy != PlacementStrategy::StrictPack) return match(selectors, nodes, strategy, max);
  std::vector<int> best(nodes.size(), 0);
  int most = 0;
  for (Index node = 0; node < nodes.size(); ++node) {
    std::vector<LabelledRoom> alone = nodes;
    for (Index other = 0; other < nodes.size(); ++other)
      if (other != node) alone[other].room = 0;
    const std::vector<int> counts = match(selectors, alone, strategy, max);
    if (counts[node] <= most) continue;
    most = counts[node];
    best = counts;
  }
  return best;
}

}  // namespace train
