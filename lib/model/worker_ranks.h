// A worker's place among the workers of its attempt.
#pragma once

#include <cstdint>

#include "lib/model/fields.h"

namespace train {

struct WorkerRanks {
  std::int32_t world_size = 1, rank = 0;
  std::int32_t local_rank = 0, local_world_size = 1;  // on its node
  std::int32_t node_rank = 0, node_count = 1;
  bool operator==(const WorkerRanks&) const = default;
  TRAIN_FIELDS(world_size, rank, local_rank, local_world_size, node_rank, node_count)
};

}  // namespace train
