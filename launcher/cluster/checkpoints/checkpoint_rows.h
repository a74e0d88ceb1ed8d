// Ranks the checkpoints of a run by its spec: which is the best, and which the latest. Pure.
#pragma once

#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/report/checkpoint_table.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/retention.h"

namespace train {

RetentionPolicy retention_policy(const CheckpointConfig& config);

/// Return one row for each checkpoint, in the same order. Only usable checkpoints may be `latest`
/// or `best`.
CheckpointTable checkpoint_table(const std::vector<ListedCheckpoint>& listed,
                                 const CheckpointConfig& config);

}  // namespace train
