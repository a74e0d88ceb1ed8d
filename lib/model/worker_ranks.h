// A worker's place among the workers of its attempt, whose ranks are those of the role that trains,
// then those of the other roles, one after the other.
#pragma once

#include <cstdint>

#include "lib/model/fields.h"

namespace train {

struct WorkerRanks {
  std::int32_t world_size = 1, rank = 0;
  std::int32_t local_rank = 0, local_world_size = 1;  // on its node
  std::int32_t node_rank = 0, node_count = 1;
  // The same within its role, in a job of several; role_world_size 0: the job has only one.
  std::int32_t role = 0;  // 0: the role that trains
  std::int32_t role_world_size = 0, role_rank = 0;
  std::int32_t role_local_rank = 0, role_local_world_size = 0;
  bool operator==(const WorkerRanks&) const = default;
  /// Return whether the worker trains: reports, makes checkpoints, reads shares of datasets.
  bool trains() const { return role == 0; }
  /// Return the worker's place among those of its role: its world, as the SDK sees it.
  WorkerRanks in_role() const {
    if (role_world_size == 0) return *this;
    WorkerRanks ranks = *this;
    ranks.world_size = role_world_size;
    ranks.rank = role_rank;
    ranks.local_rank = role_local_rank;
    ranks.local_world_size = role_local_world_size;
    return ranks;
  }
  TRAIN_FIELDS(world_size, rank, local_rank, local_world_size, node_rank, node_count, role,
               role_world_size, role_rank, role_local_rank, role_local_world_size)
};

}  // namespace train
