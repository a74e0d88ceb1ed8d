// Finds out what `num_workers: auto` means, before a run begins: asks its nodes what they have.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "lib/base/result.h"
#include "lib/net/tls_files.h"

namespace train {

/// Ask each of cluster.nodes what it offers. Those that do not answer within a few seconds, or
/// drain, are left out, and `left_out` names them. Unavailable if none is left. Blocks.
Result<std::vector<NodeCapacity>> offers_of(const ClusterConfig& cluster, const TlsFiles& tls,
                                            const std::string& build,
                                            std::vector<std::string>& left_out);

/// Return how many workers `auto` is on these nodes. ResourceExhausted if it is none.
Result<int> count_workers(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes);

}  // namespace train
