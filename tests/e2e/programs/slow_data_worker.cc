// Reads `train` again and again until train_loop_config.end_file exists, and works a millisecond on
// each batch. Its map `stretch` takes `slow_ms` for each batch on the rank `slow_rank`.
#include <arrow/record_batch.h>
#include <train/dataset.h>
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  train::register_map(
      "stretch", [](std::shared_ptr<arrow::RecordBatch> rows, const train::MapContext& context) {
        const char* rank = std::getenv("RANK");
        if (rank != nullptr && std::atoi(rank) == context.arguments().get<int>("slow_rank", -1))
          std::this_thread::sleep_for(
              std::chrono::milliseconds(context.arguments().get<int>("slow_ms", 0)));
        return rows;
      });
  return train::run(argc, argv, [](const train::Config& config) {
    const auto end_file = config.get<std::string>("end_file");
    auto shard = train::get_dataset_shard("train");
    const auto goes_on = [&] {
      const bool ends = ::access(end_file.c_str(), F_OK) == 0;
      return !train::broadcast_from_rank_zero(train::Value(ends)).as<bool>();
    };
    int passes = 0;
    for (; goes_on(); ++passes) {
      for ([[maybe_unused]] const auto& batch : shard.iter_batches({.batch_size = 5}))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      train::report({{"pass", passes}});
    }
    // What this rank knows of itself.
    train::Dict operators;
    for (const train::OperatorStats& one : shard.stats().operators) operators[one.name] = one.rows;
    return train::Value(train::Dict{{"passes", passes}, {"operators", operators}});
  });
}
