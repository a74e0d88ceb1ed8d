// The ranks of a placement's workers: how they are numbered, and which worker of which role a rank
// is. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/placement.h"
#include "lib/model/worker_ranks.h"

namespace train {

/// Return how many workers there are, of all roles: ranks world_size and above are of other roles.
int workers_of_all_roles(const Placement& placement);

/// Number the nodes in their order, and the ranks of the workers: those that train first, then role
/// after role, each in the order of the nodes.
void number_ranks(Placement& placement);

/// Return the ranks of the workers on one node of the placement, by local rank: those that train,
/// then the other roles'.
std::vector<WorkerRanks> ranks_on(const PlacedNode& placed, const Placement& placement);

/// A worker's place in its role.
struct RoleRank {
  int role = 0;  // 0: the one that trains
  int rank = 0;
};
/// Return which worker of which role a rank of the placement is.
RoleRank role_rank_of(const Placement& placement, Rank rank);
/// Return "reader 1", or "" in a job of one role.
std::string role_text(const ScalingConfig& scaling, const Placement& placement, Rank rank);
/// Return " and 2 of role reader, 1 of role evaluator", or "" in a job of one role.
std::string others_text(const ScalingConfig& scaling);

}  // namespace train
