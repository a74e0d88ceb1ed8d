// The implementation of train::DatasetShard: the dataset that this process opened, and where its
// next pass begins. torch.h's range wraps iter_batches and column_view.h, and needs nothing from
// here.
#pragma once

#include <train/dataset.h>

#include <memory>
#include <string>

#include "lib/data/row_source.h"
#include "sdk/data/dataset_spec.h"

namespace train {

struct DatasetShard::Impl {
  std::string name;
  sdk::DatasetSpec spec;
  std::shared_ptr<const data::RowSource>
      source;          // shared with the stream of a pass, which may outlive the shard
  int world_size = 1;  // 1 and 0 where the dataset is not split
  int rank = 0;
  std::uint64_t next_epoch = 0;
  std::int64_t next_rows_consumed =
      0;  // of next_epoch, by all ranks, when a checkpoint was taken inside it
  std::weak_ptr<BatchStream> last_pass;
};

namespace sdk {

/// Forget all opened datasets, as at the start of the process. For tests that play several workers
/// one after the other.
void forget_dataset_shards();

}  // namespace sdk
}  // namespace train
