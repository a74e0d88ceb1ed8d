// The implementation of train::DatasetShard: the dataset that this process opened, and where its
// next pass begins. torch.h's range wraps iter_batches and column_view.h, and needs nothing from
// here.
#pragma once

#include <train/dataset.h>

#include <memory>
#include <set>
#include <string>

#include "lib/data/plan/mix_order.h"
#include "lib/data/plan/row_order.h"
#include "lib/data/row_source.h"
#include "sdk/data/cursor.h"
#include "sdk/data/dataset_spec.h"
#include "sdk/data/loop_speed.h"
#include "sdk/data/map_chain.h"
#include "sdk/data/preprocessing.h"

namespace train {

struct DatasetShard::Impl {
  std::string name;
  sdk::DatasetSpec spec;
  std::shared_ptr<DatasetMeters> meters;
  /// Shared with the stream of a pass, which may outlive the shard.
  std::shared_ptr<const data::RowSource> source;
  std::shared_ptr<const sdk::MapChain> maps;
  /// Of a mix, which has no source and no maps of its own: its datasets and their order.
  std::vector<std::shared_ptr<Impl>> members;
  std::optional<data::MixOrder> mix;
  std::shared_ptr<const sdk::FittedSteps> preprocessors;  // null: none
  sdk::DatasetLayout layout;                              // of source
  data::OrderSpec order;                                  // of all epochs, but the one below
  /// 1, with rank 0, if the dataset is not split.
  int world_size = 1;
  int rank = 0;
  std::uint64_t next_epoch = 0;
  /// Rows of next_epoch that all ranks together have consumed, if a checkpoint was taken inside it.
  std::int64_t next_rows_consumed = 0;
  data::OrderSpec resumed_order;  // of that epoch
  std::weak_ptr<BatchStream> last_pass;
  /// Whether the newest pass reads for itself, as there are no ingest workers. Shared with it.
  std::shared_ptr<bool> reads_alone = std::make_shared<bool>(false);
  /// Units at which ingest workers have died, in any pass. Likewise.
  std::shared_ptr<std::set<std::int64_t>> deadly_units = std::make_shared<std::set<std::int64_t>>();
  std::shared_ptr<sdk::LoopSpeed> speed;  // of the last pass, if it is measured
};

namespace sdk {

/// Forget all opened datasets, as at the start of the process. For tests that act as several
/// workers, one after another.
void forget_dataset_shards();

}  // namespace sdk
}  // namespace train
