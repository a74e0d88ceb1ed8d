// A pass over a dataset whose rows come from ingest workers.
#pragma once

#include <memory>

#include "lib/data/batch_reader.h"
#include "lib/data/serve/messages.h"
#include "sdk/data/dataset_shard.h"

namespace train::sdk {

/// Return what gives the decoded and mapped batches of a pass, by ingest workers as long as there
/// are any, else by this rank itself. `pass`: the order, the division and the position; the rest is
/// filled in here. `prefetch_bytes`: those of the pass.
std::unique_ptr<data::BatchSource> ingest_reader(const DatasetShard::Impl& shard,
                                                 std::shared_ptr<const data::ShardPlan> plan,
                                                 data::OpenPass pass, std::int64_t prefetch_bytes);

}  // namespace train::sdk
