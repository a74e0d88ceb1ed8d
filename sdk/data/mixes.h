// A dataset that is a mix of others: what the shard of a mix makes of those of its datasets.
#pragma once

#include <vector>

#include "lib/base/result.h"
#include "lib/data/mix_reader.h"
#include "lib/data/plan/mix_order.h"
#include "sdk/data/cursor.h"
#include "sdk/data/dataset_shard.h"

namespace train::sdk {

/// Return the order of the mix's epochs. An error if the known columns of its datasets differ.
Result<data::MixOrder> mix_of(const DatasetShard::Impl& mix);

/// Return the layout of all its datasets together. The digest covers all that fixes the order: the
/// layouts, weights, seeds and lanes.
DatasetLayout layout_of_mix(const DatasetShard::Impl& mix);

/// Return its datasets, for a reader. Their orders do not depend on the number of workers.
std::vector<data::MixSource> sources_of_mix(const DatasetShard::Impl& mix);

}  // namespace train::sdk
