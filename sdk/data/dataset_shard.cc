#include "sdk/data/dataset_shard.h"

#include <fmt/format.h>
#include <train/checkpoint.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "lib/data/shard_plan.h"
#include "sdk/client/session.h"
#include "sdk/data/agreement.h"
#include "sdk/data/batch_stream.h"
#include "sdk/data/failure.h"

namespace train {
namespace {

/// The datasets that this process has opened. Like the session, there is one for all:
/// get_dataset_shard() in the epoch loop returns the same shard, so that its epochs count up. Never
/// destroyed, because user threads may still read when main returns.
struct OpenShards {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<DatasetShard::Impl>> by_name;
};
OpenShards& open_shards() {
  static OpenShards& shards = *new OpenShards;
  return shards;
}

const Dict& spec_entry(const std::string& name) {
  const Dict& datasets = sdk::worker_info().datasets;
  const auto entry = datasets.find(name);
  if (entry == datasets.end()) {
    std::string known;
    for (const auto& [other, spec] : datasets)
      known += (known.empty() ? ", only '" : ", '") + other + "'";
    throw Failure(
        "not_found",
        fmt::format("the job has no dataset '{}'{} (add it under `datasets` in the job's YAML)",
                    name, known.empty() ? ", nor any other" : known));
  }
  return entry->second.is_dict()
             ? std::get<Dict>(entry->second.storage())
             : throw Failure("invalid_argument", fmt::format("dataset '{}' is not a dict", name));
}

std::string order_of(const DatasetShard::Impl& shard) {
  return data::order_of(shard.source->group_rows(),
                        shard.spec.shuffle ? std::optional(shard.spec.shuffle_seed) : std::nullopt);
}

/// Let the first pass begin at the restored checkpoint's position in the dataset; without one, at
/// the epoch after the checkpoint's. What has another form than the SDK's positions is none:
/// earlier versions let users' metadata have the key.
void restore_position(DatasetShard::Impl& shard) {
  const auto restored_epoch = sdk::worker_info().restored_epoch;
  shard.next_epoch = restored_epoch ? static_cast<std::uint64_t>(*restored_epoch + 1) : 0;
  const auto checkpoint = get_checkpoint();
  if (!checkpoint) return;
  const auto positions = checkpoint->metadata().find(sdk::kPositionsKey);
  if (positions == checkpoint->metadata().end()) return;
  if (!positions->second.is_dict()) return;
  const auto all = positions->second.as<Dict>();
  const auto mine = all.find(shard.name);
  if (mine == all.end() || !mine->second.is_dict()) return;
  const Config position(mine->second.as<Dict>());
  std::string order;
  try {
    const auto epoch = static_cast<std::uint64_t>(position.get<std::int64_t>("epoch"));
    shard.next_rows_consumed = position.get<std::int64_t>("rows");
    shard.next_epoch = epoch;
    order = position.get<std::string>("order", "");  // earlier versions did not write it
  } catch (const Failure&) {
    return;
  }
  if (shard.next_rows_consumed == 0 || order.empty() || order == order_of(shard)) return;
  // The first rows of this order are others than those of the order that the checkpoint counted in.
  shard.next_rows_consumed = 0;
  if (sdk::worker_info().rank != 0) return;
  std::fprintf(stderr,
               "trainrun: dataset '%s' has other rows, or another order, than when the checkpoint "
               "was made: epoch %llu begins again from its first row\n",
               shard.name.c_str(), static_cast<unsigned long long>(shard.next_epoch));
}

std::shared_ptr<DatasetShard::Impl> open_shard(const std::string& name) {
  auto shard = std::make_shared<DatasetShard::Impl>();
  shard->name = name;
  const std::string doing = fmt::format("dataset '{}'", name);
  try {
    shard->spec = sdk::dataset_spec_from(spec_entry(name));
  } catch (const Failure& why) {
    if (why.kind() == "not_found") throw;
    throw Failure(why.kind(), fmt::format("{}: {}", doing, why.what()));
  }
  auto source = sdk::open_dataset(shard->spec);
  if (source.has_error()) sdk::throw_failure(std::move(source.error()).with_context(doing));
  shard->source = std::move(*source);
  auto maps = sdk::MapChain::make(name, shard->spec, shard->source);
  if (maps.has_error()) sdk::throw_failure(std::move(maps.error()).with_context(doing));
  shard->maps = std::move(*maps);
  if (shard->spec.split) {
    shard->world_size = sdk::worker_info().world_size;
    shard->rank = sdk::worker_info().rank;
  }
  restore_position(*shard);
  return shard;
}

void check_options(const DatasetShard::Impl& shard, const BatchOptions& options) {
  if (options.batch_size < 1) {
    throw Failure("invalid_argument",
                  fmt::format("dataset '{}': batch_size is {} (give at least 1)", shard.name,
                              options.batch_size));
  }
  if (options.batch_size > data::kBatchSizeMax) {
    throw Failure("invalid_argument",
                  fmt::format("dataset '{}': batch_size is {} (give at most {})", shard.name,
                              options.batch_size, data::kBatchSizeMax));
  }
  if (options.prefetch_batches < 0) {
    throw Failure("invalid_argument",
                  fmt::format("dataset '{}': prefetch_batches is {} (give 0 for none)", shard.name,
                              options.prefetch_batches));
  }
}

/// Return the batch sizes of all ranks that read this dataset together, once they agree on what
/// they read.
std::vector<std::int64_t> agree_with_peers(const DatasetShard::Impl& shard,
                                           const BatchOptions& options) {
  if (shard.world_size == 1) return {options.batch_size};
  const sdk::PassView view{.group_rows = shard.source->group_rows(),
                           .batch_size = options.batch_size,
                           .drop_last = options.drop_last,
                           .epoch = shard.next_epoch,
                           .rows_consumed = shard.next_rows_consumed};
  auto batch_sizes =
      sdk::agree(sdk::all_gather(fmt::format("row counts of '{}'", shard.name), sdk::encode(view)));
  if (batch_sizes.has_error())
    sdk::throw_failure(
        std::move(batch_sizes.error()).with_context(fmt::format("dataset '{}'", shard.name)));
  return std::move(*batch_sizes);
}

data::ShardPlan plan_pass(const DatasetShard::Impl& shard,
                          const std::vector<std::int64_t>& batch_sizes, bool drop_last) {
  auto plan = data::ShardPlan::make({.group_rows = shard.source->group_rows(),
                                     .batch_sizes = batch_sizes,
                                     .rank = shard.rank,
                                     .shuffle = shard.spec.shuffle,
                                     .seed = shard.spec.shuffle_seed,
                                     .epoch = shard.next_epoch,
                                     .rows_consumed = shard.next_rows_consumed,
                                     .drop_last = drop_last});
  if (plan.has_error())
    sdk::throw_failure(
        std::move(plan.error()).with_context(fmt::format("dataset '{}'", shard.name)));
  return std::move(*plan);
}

}  // namespace

std::int64_t DatasetShard::rows() const {
  return data::equal_share(total_rows(), impl_->world_size, impl_->rank);
}

std::int64_t DatasetShard::total_rows() const {
  const auto& rows = impl_->source->group_rows();
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

std::shared_ptr<arrow::Schema> DatasetShard::schema() const { return impl_->maps->schema(); }

void DatasetShard::set_epoch(std::uint64_t epoch) {
  // If a checkpoint was taken inside this epoch, the pass continues there.
  if (epoch == impl_->next_epoch) return;
  impl_->next_epoch = epoch;
  impl_->next_rows_consumed = 0;
}

BatchRange DatasetShard::iter_batches(const BatchOptions& options) {
  check_options(*impl_, options);
  if (const auto last = impl_->last_pass.lock()) last->supersede();
  const std::vector<std::int64_t> batch_sizes = agree_with_peers(*impl_, options);
  data::ShardPlan plan = plan_pass(*impl_, batch_sizes, options.drop_last);
  // The checkpoint may have been taken where nothing was left of the epoch.
  if (plan.batches() == 0 && impl_->next_rows_consumed > 0) {
    set_epoch(impl_->next_epoch + 1);
    plan = plan_pass(*impl_, batch_sizes, options.drop_last);
  }
  const std::int64_t batches = plan.batches();
  auto stream =
      std::make_shared<BatchStream>(BatchStream::Pass{.dataset = impl_->name,
                                                      .order = order_of(*impl_),
                                                      .epoch = impl_->next_epoch,
                                                      .batches = batches,
                                                      .maps = impl_->maps,
                                                      .prefetch_batches = options.prefetch_batches},
                                    data::BatchReader(impl_->source, std::move(plan)));
  impl_->last_pass = stream;
  set_epoch(impl_->next_epoch + 1);
  return BatchRange(std::move(stream));
}

DatasetShard get_dataset_shard(const std::string& name) {
  OpenShards& shards = open_shards();
  const std::lock_guard lock(shards.mutex);
  auto& shard = shards.by_name[name];
  if (!shard) shard = open_shard(name);
  return DatasetShard(shard);
}

namespace sdk {

void forget_dataset_shards() {
  OpenShards& shards = open_shards();
  const std::lock_guard lock(shards.mutex);
  shards.by_name.clear();
}

}  // namespace sdk
}  // namespace train
