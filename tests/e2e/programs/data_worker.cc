// Reads the shard of `train` in batches of train_loop_config.batch_size. Its result is the number
// of batches, and column x of its rows.
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <train/dataset.h>
#include <train/train.h>

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    train::List rows;
    int batches = 0;
    auto shard = train::get_dataset_shard("train");
    for (const auto& batch :
         shard.iter_batches({.batch_size = config.get<std::int64_t>("batch_size")})) {
      ++batches;
      const auto column =
          std::static_pointer_cast<arrow::Int64Array>(batch.data->GetColumnByName("x"));
      for (std::int64_t row = 0; row < batch.valid_rows; ++row)
        rows.push_back(train::Value(column->Value(row)));
    }
    return train::Value(train::Dict{{"batches", batches}, {"rows", rows}});
  });
}
