// What the checkpoints of a run are to its spec: which is the best, which the latest. Pure.
#pragma once

#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/report/checkpoint_table.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/retention.h"

namespace train {

RetentionPolicy retention_policy(const CheckpointConfig& config);

/// One row for each, in the same order. `latest` and `best` are of those that can be used.
CheckpointTable checkpoint_table(const std::vector<ListedCheckpoint>& listed,
                                 const CheckpointConfig& config);

}  // namespace train
