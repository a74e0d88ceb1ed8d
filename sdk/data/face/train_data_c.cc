// The C face of <train/dataset.h>. No exception passes through C.
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <train/dataset.h>
#include <train/error.h>
// After Arrow, which has the structs of its C data interface itself.
#include <train/train_data_c.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/data/arrow_error.h"
#include "sdk/client/c_guard.h"
#include "sdk/data/column_view.h"
#include "sdk/data/face/serve_ingest.h"
#include "sdk/data/failure.h"

struct trainrun_dataset {
  train::DatasetShard shard;
};
struct trainrun_batches {
  train::BatchRange range;
  std::optional<train::BatchRange::Iterator> at;  // none: not begun
  bool over = false;
};
struct trainrun_batch {
  train::Batch batch;
  std::vector<train::sdk::ColumnView> views;  // which `columns` point into
  std::vector<trainrun_column> columns;
};

namespace {

using train::Failure;
using train::sdk::given;
using train::sdk::guarded;
using train::sdk::last_error;

std::int64_t rows_of(const trainrun_dataset* dataset,
                     std::int64_t (train::DatasetShard::*rows)() const) {
  std::int64_t count = -1;
  guarded([&] { count = (given(dataset, "dataset")->shard.*rows)(); });
  return count;
}

train::BatchOptions options_from(const trainrun_batch_options* options) {
  if (options == nullptr) return {};
  if (options->size != sizeof(trainrun_batch_options))
    throw Failure("invalid_argument",
                  "the program was compiled for another version of <train/train_data_c.h>");
  return {.batch_size = options->batch_size,
          .weight = options->weight,
          .drop_last = options->drop_last != 0,
          .prefetch_batches = options->prefetch_batches,
          .prefetch_bytes = options->prefetch_bytes};
}

void check(const arrow::Status& status, const char* doing) {
  if (!status.ok()) train::sdk::throw_failure(train::data::error_from(status, doing));
}

train::Dict stats_entry(const train::OperatorStats& one) {
  return {{"name", one.name},
          {"rows", one.rows},
          {"bytes", one.bytes},
          {"busy_us", std::int64_t{one.busy.count()}},
          {"waited_for_input_us", std::int64_t{one.waited_for_input.count()}},
          {"waited_for_room_us", std::int64_t{one.waited_for_room.count()}},
          {"queue_bytes", one.queue_bytes}};
}

void make_columns(trainrun_batch& batch) {
  if (!batch.columns.empty()) return;
  batch.views = train::sdk::column_views(batch.batch);
  for (const train::sdk::ColumnView& view : batch.views)
    batch.columns.push_back({.name = view.name.c_str(),
                             .type = train::sdk::to_string(view.type),
                             .shape = view.shape.data(),
                             .dimensions = view.shape.size(),
                             .data = view.data});
}

}  // namespace

extern "C" {

const char* trainrun_data_last_error(void) { return last_error.text.c_str(); }
const char* trainrun_data_last_error_kind(void) { return last_error.kind.c_str(); }

int trainrun_dataset_open(const char* name, trainrun_dataset** out) {
  return guarded([&] {
    *given(out, "out") = nullptr;
    *out = new trainrun_dataset{train::get_dataset_shard(given(name, "name"))};
  });
}
void trainrun_dataset_free(trainrun_dataset* dataset) { delete dataset; }

int64_t trainrun_dataset_rows(const trainrun_dataset* dataset) {
  return rows_of(dataset, &train::DatasetShard::rows);
}
int64_t trainrun_dataset_total_rows(const trainrun_dataset* dataset) {
  return rows_of(dataset, &train::DatasetShard::total_rows);
}
int trainrun_dataset_schema(const trainrun_dataset* dataset, struct ArrowSchema* out) {
  return guarded([&] {
    const auto schema = given(dataset, "dataset")->shard.schema();
    check(arrow::ExportSchema(*schema, given(out, "out")), "exporting the schema");
  });
}
int trainrun_dataset_set_epoch(trainrun_dataset* dataset, uint64_t epoch) {
  return guarded([&] { given(dataset, "dataset")->shard.set_epoch(epoch); });
}
int trainrun_dataset_stats(const trainrun_dataset* dataset, const char** out_json) {
  thread_local std::string kept;
  return guarded([&] {
    train::List list;
    for (const train::OperatorStats& one : given(dataset, "dataset")->shard.stats().operators)
      list.emplace_back(stats_entry(one));
    kept = train::to_json(train::Value(std::move(list)));
    *given(out_json, "out_json") = kept.c_str();
  });
}

int trainrun_dataset_iter_batches(trainrun_dataset* dataset, const trainrun_batch_options* options,
                                  trainrun_batches** out) {
  return guarded([&] {
    *given(out, "out") = nullptr;
    *out = new trainrun_batches{
        given(dataset, "dataset")->shard.iter_batches(options_from(options)), std::nullopt};
  });
}
int64_t trainrun_batches_size(const trainrun_batches* batches) {
  std::int64_t size = -1;
  guarded([&] { size = given(batches, "batches")->range.size(); });
  return size;
}
int trainrun_batches_next(trainrun_batches* batches, trainrun_batch** out) {
  return guarded([&] {
    *given(out, "out") = nullptr;
    if (given(batches, "batches")->over) return;
    if (batches->at) {
      ++*batches->at;
    } else {
      batches->at = batches->range.begin();
    }
    batches->over = *batches->at == batches->range.end();
    if (!batches->over) *out = new trainrun_batch{**batches->at, {}, {}};
  });
}
void trainrun_batches_free(trainrun_batches* batches) { delete batches; }

int64_t trainrun_batch_rows(const trainrun_batch* batch) {
  std::int64_t rows = -1;
  guarded([&] { rows = train::sdk::row_count(given(batch, "batch")->batch); });
  return rows;
}
int64_t trainrun_batch_valid_rows(const trainrun_batch* batch) {
  std::int64_t rows = -1;
  guarded([&] { rows = given(batch, "batch")->batch.valid_rows; });
  return rows;
}
double trainrun_batch_weight(const trainrun_batch* batch) {
  double weight = -1;
  guarded([&] { weight = given(batch, "batch")->batch.weight; });
  return weight;
}
int trainrun_batch_columns(trainrun_batch* batch, const trainrun_column** out, size_t* count) {
  return guarded([&] {
    make_columns(*given(batch, "batch"));
    *given(out, "out") = batch->columns.data();
    *given(count, "count") = batch->columns.size();
  });
}
int trainrun_batch_export(const trainrun_batch* batch, struct ArrowSchema* schema,
                          struct ArrowArray* array) {
  return guarded([&] {
    check(arrow::ExportRecordBatch(*given(batch, "batch")->batch.data, given(array, "array"),
                                   given(schema, "schema")),
          "exporting a batch");
  });
}
void trainrun_batch_free(trainrun_batch* batch) { delete batch; }

int trainrun_data_serve(int* code) {
  return guarded([&] { *given(code, "code") = train::sdk::serve_datasets(); });
}

}  // extern "C"
