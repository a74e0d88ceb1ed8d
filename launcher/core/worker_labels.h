// Distributes workers that have a label selector each. Pure.
#pragma once

#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/model/labels.h"

namespace train {

/// A node for workers with selectors.
struct LabelledRoom {
  const Labels* labels = nullptr;
  int room = 0;  // for workers
};

/// Return how many workers each node gets: as many of them as can be placed at all, at most `max`.
/// Where there is a choice, PACK takes the roomiest nodes first, SPREAD the emptiest; STRICT_PACK
/// takes one node alone, STRICT_SPREAD one worker for each.
std::vector<int> place_labelled(const std::vector<LabelSelector>& selectors,
                                const std::vector<LabelledRoom>& nodes, PlacementStrategy strategy,
                                int max);

}  // namespace train
