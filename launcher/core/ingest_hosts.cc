#include "launcher/core/ingest_hosts.h"

#include <algorithm>

namespace train {

IngestHosts::IngestHosts(const Placement& placement, bool adopted) {
  for (const PlacedIngest& place : placement.ingest) {
    const bool has_ranks =
        std::any_of(placement.nodes.begin(), placement.nodes.end(),
                    [&](const PlacedNode& placed) { return placed.node == place.node; });
    if (has_ranks || hosts_.contains(place.node)) continue;
    const auto rank = static_cast<int>(placement.nodes.size() + hosts_.size());
    hosts_.emplace(place.node, Host{{.node = place.node,
                                     .node_rank = NodeRank{rank},
                                     .first_rank = Rank{placement.world_size}},
                                    adopted ? Step::Unknown : Step::Preparing});
  }
}

}  // namespace train
