#include "sdk/data/dataset_shard.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <train/checkpoint.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "lib/data/arrow_error.h"
#include "lib/data/mix_reader.h"
#include "lib/data/plan/shard_plan.h"
#include "lib/data/transform/preprocessors.h"
#include "lib/progress/progress_clock.h"
#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/data/agreement.h"
#include "sdk/data/batch_stream.h"
#include "sdk/data/convert_batch.h"
#include "sdk/data/failure.h"
#include "sdk/data/ingest_pass.h"
#include "sdk/data/ingest_role.h"
#include "sdk/data/mixes.h"

namespace train {
namespace {

/// The datasets that this process has opened. Like the session, there is one for all:
/// get_dataset_shard() in the epoch loop returns the same shard, so that its epochs count up. Never
/// destroyed, because user threads may still read when main returns.
struct OpenShards {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<DatasetShard::Impl>> by_name;
  /// Also of datasets that could not be opened: the next try goes on counting there.
  std::map<std::string, std::shared_ptr<DatasetMeters>> meters;
};
/// A program that reads datasets can also serve them.
[[maybe_unused]] const bool kServes = sdk::register_ingest_server(sdk::serve_ingest);

OpenShards& open_shards() {
  static OpenShards& shards = *[] {
    sdk::at_run_end(sdk::forget_dataset_shards);
    return new OpenShards;
  }();
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

/// Throw `error`, with the dataset's name.
[[noreturn]] void fail(const std::string& dataset, Error error) {
  sdk::throw_failure(std::move(error).with_context(fmt::format("dataset '{}'", dataset)));
}

/// Return what a checkpoint keeps of a dataset: null if it keeps nothing.
Value kept_of(const Dict& metadata, const std::string& dataset) {
  const auto all = metadata.find(sdk::kPositionsKey);
  if (all == metadata.end() || !all->second.is_dict()) return {};
  const auto datasets = all->second.as<Dict>();
  const auto found = datasets.find(dataset);
  return found == datasets.end() ? Value() : found->second;
}

std::optional<sdk::Cursor> restored_cursor(const DatasetShard::Impl& shard) {
  const auto checkpoint = get_checkpoint();
  if (!checkpoint) return std::nullopt;
  auto cursor = sdk::read_cursor(kept_of(checkpoint->metadata(), shard.name));
  if (cursor.has_error()) fail(shard.name, std::move(cursor).error());
  return std::move(*cursor);
}

/// Let the first pass begin where the cursor is, in the order in which it counts.
void go_on_from(const sdk::Cursor& cursor, DatasetShard::Impl& shard) {
  shard.next_epoch = cursor.epoch;
  if (cursor.rows_consumed == 0) return;
  const data::OrderWish& wish = shard.spec.order;
  if (const auto changed = sdk::difference(cursor, shard.layout, wish.shuffle, wish.seed)) {
    if (!shard.spec.restart_changed_epoch) {
      fail(shard.name,
           {Errc::InvalidArgument,
            fmt::format("its rows are not those of which the checkpoint counts {} in epoch {}: {}",
                        cursor.rows_consumed, cursor.epoch, *changed),
            "put the files back, or set the dataset's on_change: restart_epoch, which begins this "
            "epoch again"});
    }
    if (sdk::worker_info().rank == 0)
      std::fprintf(stderr,
                   "trainrun: dataset '%s' has changed (%s): epoch %llu begins again from its "
                   "first row\n",
                   shard.name.c_str(), changed->c_str(),
                   static_cast<unsigned long long>(cursor.epoch));
    return;
  }
  shard.next_rows_consumed = cursor.rows_consumed;
  shard.resumed_order = cursor.order ? *cursor.order
                                     : data::order_of_version_1(shard.layout.units.unit_rows,
                                                                wish.shuffle, wish.seed);
}

/// Choose the order of the epochs, and begin at the restored checkpoint's position in the dataset;
/// without one, at the epoch after the checkpoint's.
void set_start(DatasetShard::Impl& shard) {
  const auto restored_epoch = sdk::worker_info().restored_epoch;
  shard.next_epoch = restored_epoch ? static_cast<std::uint64_t>(*restored_epoch + 1) : 0;
  const auto cursor = restored_cursor(shard);
  const data::DatasetSize size{.rows = shard.source->total_rows(),
                               .decoded_bytes = shard.source->decoded_bytes(),
                               .reads_rows = shard.source->reads_rows()};
  std::optional<std::int64_t> lanes;
  if (cursor && cursor->order && cursor->order->shuffle != data::Shuffle::Rows)
    lanes = cursor->order->lanes;
  auto order = data::choose_order(shard.spec.order, size, shard.world_size, lanes);
  if (order.has_error()) fail(shard.name, std::move(order).error());
  shard.order = *order;
  if (cursor) go_on_from(*cursor, shard);
}

/// Return what counts the work on the dataset. `open_shards().mutex` is held.
std::shared_ptr<DatasetMeters> meters_for(const std::string& name, const sdk::DatasetSpec& spec) {
  auto& meters = open_shards().meters[name];
  if (!meters) meters = sdk::meters_of(name, spec, sdk::data_page());
  return meters;
}

using Shards = std::map<std::string, std::shared_ptr<DatasetShard::Impl>>;
std::shared_ptr<DatasetShard::Impl> shard_of(const std::string& name, Shards& shards);

/// Return the preprocessors that a checkpoint keeps of a dataset, if it keeps any.
std::shared_ptr<const sdk::FittedSteps> kept_preprocessors(const Dict& metadata,
                                                           const std::string& dataset) {
  const Value kept = kept_of(metadata, dataset);
  if (!kept.is_dict()) return nullptr;
  const auto entry = kept.as<Dict>();
  const auto text = entry.find(sdk::kPreprocessorsKey);
  if (text == entry.end() || !text->second.is_string()) return nullptr;
  auto fitted = sdk::parse_fitted(text->second.as<std::string>());
  if (fitted.has_error()) fail(dataset, std::move(fitted).error());
  return std::make_shared<const sdk::FittedSteps>(std::move(*fitted));
}

/// Return the shard's preprocessors: those of the restored checkpoint; else those of the dataset
/// that it names; else fit them.
std::shared_ptr<const sdk::FittedSteps> preprocessors_of(const DatasetShard::Impl& shard,
                                                         Shards& shards) {
  const std::vector<sdk::MapStep>& steps = shard.spec.preprocessors;
  if (steps.empty()) return nullptr;
  const std::string& from = shard.spec.preprocessors_from;
  const std::string& fitted_on = from.empty() ? shard.name : from;
  const auto checkpoint = get_checkpoint();
  if (auto kept = checkpoint ? kept_preprocessors(checkpoint->metadata(), fitted_on) : nullptr) {
    if (kept->steps == steps) return kept;
    fail(shard.name, {Errc::InvalidArgument,
                      "its preprocessors are not those with which the checkpoint's model was "
                      "trained",
                      "put the spec's preprocessors back, or begin a new run"});
  }
  if (!from.empty()) return shard_of(from, shards)->preprocessors;
  const DatasetMeters::Working indexing(shard.meters.get(), &DatasetMeters::index);
  auto fitted = sdk::fit_preprocessors(shard.name, steps, *shard.source,
                                       {.ranks = shard.world_size, .rank = shard.rank});
  if (fitted.has_error()) fail(shard.name, std::move(fitted).error());
  return std::make_shared<const sdk::FittedSteps>(std::move(*fitted));
}

/// Let every checkpoint from now on keep them.
void keep_preprocessors(const DatasetShard::Impl& shard) {
  if (!shard.preprocessors || !shard.spec.preprocessors_from.empty()) return;
  auto text = sdk::format_fitted(*shard.preprocessors);
  if (text.has_error()) fail(shard.name, std::move(text).error());
  sdk::set_preprocessors(shard.name, std::move(*text));
}

/// Tell the user that an object store is waited for, but not for each of many requests.
void say_trouble(const std::string& text) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kQuiet{10};
  static std::mutex mutex;
  static std::optional<Clock::time_point> said_at;
  const std::lock_guard lock(mutex);
  const auto now = Clock::now();
  if (said_at && now - *said_at < kQuiet) return;
  said_at = now;
  std::fprintf(stderr, "trainrun: datasets: %s\n", text.c_str());
}

/// Open the datasets of a mix.
void open_mix(DatasetShard::Impl& shard, Shards& shards) {
  if (shard.spec.by_ingest_workers)
    fail(shard.name, {Errc::InvalidArgument, "it is a mix, which ingest workers do not read",
                      "remove its ingest_workers"});
  for (const auto& [member, weight] : shard.spec.mix)
    shard.members.push_back(shard_of(member, shards));
  auto mix = sdk::mix_of(shard);
  if (mix.has_error()) fail(shard.name, std::move(mix).error());
  shard.mix = std::move(*mix);
  shard.layout = sdk::layout_of_mix(shard);
  const auto restored_epoch = sdk::worker_info().restored_epoch;
  shard.next_epoch = restored_epoch ? static_cast<std::uint64_t>(*restored_epoch + 1) : 0;
  if (const auto cursor = restored_cursor(shard)) go_on_from(*cursor, shard);
}

std::shared_ptr<DatasetShard::Impl> open_shard(const std::string& name, Shards& shards) {
  auto shard = std::make_shared<DatasetShard::Impl>();
  shard->name = name;
  const std::string doing = fmt::format("dataset '{}'", name);
  try {
    shard->spec = sdk::dataset_spec_from(spec_entry(name));
  } catch (const Failure& why) {
    if (why.kind() == "not_found") throw;
    throw Failure(why.kind(), fmt::format("{}: {}", doing, why.what()));
  }
  if (shard->spec.split) {
    shard->world_size = sdk::worker_info().world_size;
    shard->rank = sdk::worker_info().rank;
  }
  shard->meters = meters_for(name, shard->spec);
  if (!shard->spec.mix.empty()) {
    open_mix(*shard, shards);
    return shard;
  }
  shard->spec.files.stores.on_retry = say_trouble;
  auto source = sdk::open_dataset(shard->spec, shard->meters);
  if (source.has_error()) sdk::throw_failure(std::move(source.error()).with_context(doing));
  shard->source = std::move(*source);
  shard->preprocessors = preprocessors_of(*shard, shards);
  keep_preprocessors(*shard);
  auto maps = sdk::MapChain::make(name, shard->spec, shard->source,
                                  shard->preprocessors ? shard->preprocessors->fitted
                                                       : std::vector<data::FittedPreprocessor>());
  if (maps.has_error()) sdk::throw_failure(std::move(maps.error()).with_context(doing));
  shard->maps = std::move(*maps);
  shard->layout = sdk::layout_of(*shard->source);
  set_start(*shard);
  return shard;
}

std::shared_ptr<DatasetShard::Impl> shard_of(const std::string& name, Shards& shards) {
  auto& shard = shards[name];
  if (!shard) shard = open_shard(name, shards);
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
  constexpr double kWeightMost = 1000;
  if (!(options.weight >= 1 / kWeightMost && options.weight <= kWeightMost)) {
    throw Failure("invalid_argument", fmt::format("dataset '{}': weight is {} (give 0.001 to 1000)",
                                                  shard.name, options.weight));
  }
  if (options.prefetch_batches < 0) {
    throw Failure("invalid_argument",
                  fmt::format("dataset '{}': prefetch_batches is {} (give 0 for none)", shard.name,
                              options.prefetch_batches));
  }
  if (options.prefetch_bytes < 0) {
    throw Failure(
        "invalid_argument",
        fmt::format("dataset '{}': prefetch_bytes is {} (give 0 to prepare one batch at a "
                    "time)",
                    shard.name, options.prefetch_bytes));
  }
}

std::int64_t rows_in_epoch(const DatasetShard::Impl& shard) {
  return shard.mix ? shard.mix->total_rows() : shard.source->total_rows();
}

/// Return the order of the next epoch.
const data::OrderSpec& next_order(const DatasetShard::Impl& shard) {
  return shard.next_rows_consumed > 0 ? shard.resumed_order : shard.order;
}

/// Return the batch sizes of all ranks that read this dataset together, once they agree on what
/// they read.
std::vector<std::int64_t> agree_with_peers(const DatasetShard::Impl& shard,
                                           const BatchOptions& options) {
  if (shard.world_size == 1) return {options.batch_size};
  const data::OrderSpec& order = next_order(shard);
  const sdk::PassView view{
      .rows = rows_in_epoch(shard),
      .layout = shard.layout.digest,
      .order = fmt::format("{}, seed {}, {} lanes, {} rows a block", data::to_string(order.shuffle),
                           order.seed, order.lanes, order.block_rows),
      .batch_size = options.batch_size,
      .weight = options.weight,
      .speed = shard.speed ? shard.speed->value() : 0,
      .drop_last = options.drop_last,
      .epoch = shard.next_epoch,
      .rows_consumed = shard.next_rows_consumed};
  auto batch_sizes =
      sdk::agree(sdk::all_gather(fmt::format("row counts of '{}'", shard.name), sdk::encode(view)));
  if (batch_sizes.has_error()) fail(shard.name, std::move(batch_sizes.error()));
  return std::move(*batch_sizes);
}

data::ShardPlan plan_pass(const DatasetShard::Impl& shard,
                          const std::vector<std::int64_t>& batch_sizes, bool drop_last) {
  auto plan = data::ShardPlan::make({.layout = shard.layout.units,
                                     .batch_sizes = batch_sizes,
                                     .rank = shard.rank,
                                     .order = next_order(shard),
                                     .epoch = shard.next_epoch,
                                     .rows_consumed = shard.next_rows_consumed,
                                     .drop_last = drop_last});
  if (plan.has_error()) fail(shard.name, std::move(plan.error()));
  return std::move(*plan);
}

/// The batches of a pass.
struct PassBatches {
  std::int64_t batches = 0;
  std::unique_ptr<data::BatchSource> reader;
  std::shared_ptr<const sdk::MapChain> maps;  // that are still to be applied; null: none
};

/// Return whether there are ingest workers for this process: they serve the ranks of a run.
bool has_ingest_workers(const DatasetShard::Impl& shard) {
  const sdk::WorkerInfo& info = sdk::worker_info();
  return shard.spec.by_ingest_workers && info.supervised && !info.validating;
}

PassBatches batches_by_ingest(const DatasetShard::Impl& shard, data::ShardPlan plan,
                              const std::vector<std::int64_t>& batch_sizes,
                              const BatchOptions& options) {
  const std::int64_t batches = plan.batches();
  return {batches,
          sdk::ingest_reader(shard, std::make_shared<const data::ShardPlan>(std::move(plan)),
                             {.order = next_order(shard),
                              .epoch = shard.next_epoch,
                              .batch_sizes = batch_sizes,
                              .rows_consumed = shard.next_rows_consumed,
                              .drop_last = options.drop_last},
                             options.prefetch_bytes),
          nullptr};
}

PassBatches batches_of(const DatasetShard::Impl& shard,
                       const std::vector<std::int64_t>& batch_sizes, const BatchOptions& options) {
  const bool drop_last = options.drop_last;
  if (!shard.mix) {
    data::ShardPlan plan = plan_pass(shard, batch_sizes, drop_last);
    if (has_ingest_workers(shard))
      return batches_by_ingest(shard, std::move(plan), batch_sizes, options);
    const std::int64_t batches = plan.batches();
    return {batches,
            std::make_unique<data::BatchReader>(shard.source, std::move(plan), shard.meters),
            shard.maps};
  }
  auto plan = data::MixPlan::make(*shard.mix, {.batch_sizes = batch_sizes,
                                               .rank = shard.rank,
                                               .rows_consumed = shard.next_rows_consumed,
                                               .drop_last = drop_last});
  if (plan.has_error()) fail(shard.name, std::move(plan.error()));
  const std::int64_t batches = plan->batches();
  return {batches,
          std::make_unique<data::MixReader>(sdk::sources_of_mix(shard),
                                            std::make_shared<const data::MixPlan>(std::move(*plan)),
                                            shard.next_epoch, shard.meters),
          nullptr};
}

}  // namespace

std::int64_t DatasetShard::rows() const {
  return data::equal_share(total_rows(), impl_->world_size, impl_->rank);
}

std::int64_t DatasetShard::total_rows() const { return rows_in_epoch(*impl_); }

std::shared_ptr<arrow::Schema> DatasetShard::schema() const {
  return (impl_->mix ? impl_->members.front() : impl_)->maps->schema();
}

void DatasetShard::set_epoch(std::uint64_t epoch) {
  // If a checkpoint was taken inside this epoch, the pass continues there.
  if (epoch == impl_->next_epoch) return;
  impl_->next_epoch = epoch;
  impl_->next_rows_consumed = 0;
}

DataStats DatasetShard::stats() const {
  DataStats stats;
  for (DataOperator& one : impl_->meters->read(progress_now()))
    stats.operators.push_back({.name = one.name(),
                               .rows = one.rows,
                               .bytes = one.bytes,
                               .busy = std::chrono::microseconds(one.busy_us),
                               .waited_for_input = std::chrono::microseconds(one.input_us),
                               .waited_for_room = std::chrono::microseconds(one.room_us),
                               .queue_bytes = one.queue_bytes});
  return stats;
}

BatchRange DatasetShard::iter_batches(const BatchOptions& options) {
  return sdk::iter_converted(*this, options, nullptr);
}

BatchRange sdk::iter_converted(DatasetShard& dataset, const BatchOptions& options,
                               ConvertBatch convert) {
  DatasetShard::Impl& shard = *dataset.impl();
  check_options(shard, options);
  if (const auto last = shard.last_pass.lock()) last->supersede();
  const std::vector<std::int64_t> batch_sizes = agree_with_peers(shard, options);
  shard.speed = shard.spec.balance ? std::make_shared<sdk::LoopSpeed>() : nullptr;
  PassBatches pass = batches_of(shard, batch_sizes, options);
  // The checkpoint may have been taken where nothing was left of the epoch.
  if (pass.batches == 0 && shard.next_rows_consumed > 0) {
    dataset.set_epoch(shard.next_epoch + 1);
    pass = batches_of(shard, batch_sizes, options);
  }
  const auto order_entry = [&](const data::OrderSpec& order) {
    return std::make_shared<const Dict>(sdk::cursor_order(shard.layout, order));
  };
  auto stream =
      std::make_shared<BatchStream>(BatchStream::Pass{.dataset = shard.name,
                                                      .order = order_entry(next_order(shard)),
                                                      .next_order = order_entry(shard.order),
                                                      .epoch = shard.next_epoch,
                                                      .batches = pass.batches,
                                                      .maps = std::move(pass.maps),
                                                      .prefetch_batches = options.prefetch_batches,
                                                      .prefetch_bytes = options.prefetch_bytes,
                                                      .convert = std::move(convert),
                                                      .meters = shard.meters,
                                                      .speed = shard.speed},
                                    std::move(pass.reader));
  shard.last_pass = stream;
  dataset.set_epoch(shard.next_epoch + 1);
  return BatchRange(std::move(stream));
}

DatasetShard get_dataset_shard(const std::string& name) {
  OpenShards& shards = open_shards();
  const std::lock_guard lock(shards.mutex);
  return DatasetShard(shard_of(name, shards.by_name));
}

struct Preprocessors::Impl {
  std::vector<data::FittedPreprocessor> fitted;
};

std::shared_ptr<arrow::RecordBatch> Preprocessors::apply(
    std::shared_ptr<arrow::RecordBatch> rows) const {
  if (!rows) throw Failure("invalid_argument", "Preprocessors::apply: there are no rows");
  if (const arrow::Status ready = arrow::compute::Initialize(); !ready.ok())
    sdk::throw_failure(data::error_from(ready, "cannot set up Arrow"));
  return sdk::value_or_throw(data::preprocess(impl_->fitted, std::move(rows)));
}

Preprocessors load_preprocessors(const Checkpoint& checkpoint, const std::string& dataset) {
  const auto kept = kept_preprocessors(checkpoint.metadata(), dataset);
  if (!kept)
    throw Failure("not_found",
                  fmt::format("the checkpoint keeps no preprocessors of a dataset '{}'", dataset));
  return Preprocessors(std::make_shared<Preprocessors::Impl>(Preprocessors::Impl{kept->fitted}));
}

namespace sdk {

void forget_dataset_shards() {
  OpenShards& shards = open_shards();
  const std::lock_guard lock(shards.mutex);
  shards.by_name.clear();
  shards.meters.clear();
}

}  // namespace sdk
}  // namespace train
