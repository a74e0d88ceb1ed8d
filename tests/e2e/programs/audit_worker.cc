// Writes down which rows it had in each step of `train`, of which all ranks together take
// train_loop_config.global_batch a step: a line "epoch step id id ..." in LOG-RANK, where an id is
// the row's column x. After each step it reports a checkpoint; after `steps` steps of an attempt,
// or `epochs` epochs, it is done. Rank 0 kills itself before step `die_at` of the first attempt.
//
// The map `die` kills an ingest worker that has the row with its argument `at` as id.
//
// `sets`: instead, it reads each of these datasets once, and its result has their values of x.
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <signal.h>
#include <train/dataset.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace {

using train::get_context;

std::vector<std::int64_t> ids_of(const train::Batch& batch) {
  const auto column = std::static_pointer_cast<arrow::Int64Array>(batch.data->GetColumnByName("x"));
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < batch.valid_rows; ++row) ids.push_back(column->Value(row));
  return ids;
}

train::Value read_sets(const train::Config& config) {
  train::Dict rows;
  for (const auto& name : config.get<std::vector<std::string>>("sets")) {
    train::List of_set;
    for (const auto& batch : train::get_dataset_shard(name).iter_batches({.batch_size = 7}))
      for (const std::int64_t id : ids_of(batch)) of_set.push_back(train::Value(id));
    rows[name] = std::move(of_set);
  }
  return train::Value(rows);
}

train::Value audit(const train::Config& config) {
  const int rank = get_context().world_rank();
  auto shard = train::get_dataset_shard("train");
  const auto global = config.get<int>("global_batch");
  const std::int64_t steps_of_epoch = (shard.total_rows() + global - 1) / global;
  std::int64_t done = 0;  // steps, in all epochs
  if (const auto checkpoint = train::get_checkpoint())
    done = checkpoint->to_value().as<train::Dict>().at("done").as<std::int64_t>();
  const std::int64_t end =
      std::min(config.get<std::int64_t>("epochs") * steps_of_epoch,
               done + config.get<std::int64_t>("steps", std::int64_t{1} << 40));
  const auto die_at = config.get<std::int64_t>("die_at", -1);
  std::ofstream log(config.get<std::string>("log") + "-" + std::to_string(rank), std::ios::app);
  while (done < end) {
    for (const auto& batch : shard.iter_batches({.batch_size = train::per_worker_batch(global)})) {
      if (rank == 0 && get_context().attempt() == 0 && done == die_at) ::kill(::getpid(), SIGKILL);
      log << done / steps_of_epoch << ' ' << done % steps_of_epoch;
      for (const std::int64_t id : ids_of(batch)) log << ' ' << id;
      log << std::endl;
      ++done;
      const train::Dict metrics{{"step", done}};
      if (rank == 0)
        train::report(metrics, train::Checkpoint::from_json(train::Dict{{"done", done}}),
                      {.upload = train::Upload::Sync});
      else
        train::report(metrics, train::Checkpoint::from_writer([](const std::filesystem::path&) {}),
                      {.upload = train::Upload::Sync});
      if (done == end) break;
    }
  }
  return train::Value(train::Dict{{"done", done}});
}

}  // namespace

int main(int argc, char** argv) {
  train::register_map(
      "rename", [](std::shared_ptr<arrow::RecordBatch> rows, const train::MapContext& context) {
        std::vector<std::string> names;
        for (const std::string& name : rows->schema()->field_names())
          names.push_back(name == context.arguments().get<std::string>("from") ? "x" : name);
        return rows->RenameColumns(names).ValueOrDie();
      });
  train::register_map(
      "die", [](std::shared_ptr<arrow::RecordBatch> rows, const train::MapContext& context) {
        const auto ids = std::static_pointer_cast<arrow::Int64Array>(rows->GetColumnByName("x"));
        const auto deadly = context.arguments().get<std::int64_t>("at");
        for (std::int64_t row = 0; row < ids->length(); ++row)
          if (ids->Value(row) == deadly && std::getenv("TRAINRUN_INGEST") != nullptr)
            ::kill(::getpid(), SIGKILL);
        return rows;
      });
  return train::run(argc, argv, [](const train::Config& config) {
    return config.contains("sets") ? read_sets(config) : audit(config);
  });
}
