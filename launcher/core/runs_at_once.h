// How many runs of a spec a node takes at the same time: as many trials of a sweep. Pure.
#pragma once

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace train {

/// Return how many fit if the node is otherwise free; at least 1, at most 1024. Runs share no GPU:
/// workers that claim a part of one share it with those of their own run.
int runs_at_once(const JobSpec& spec, const NodeCapacity& node);

}  // namespace train
