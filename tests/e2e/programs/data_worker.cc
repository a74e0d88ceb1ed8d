// Reads the shard of `train` in batches of train_loop_config.batch_size. Its result is the number
// of batches, and column x of its rows. Its map `rename` calls a column x.
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <train/dataset.h>
#include <train/train.h>

int main(int argc, char** argv) {
  train::register_map(
      "rename", [](std::shared_ptr<arrow::RecordBatch> rows, const train::MapContext& context) {
        std::vector<std::string> names;
        for (const std::string& name : rows->schema()->field_names())
          names.push_back(name == context.arguments().get<std::string>("from") ? "x" : name);
        return rows->RenameColumns(names).ValueOrDie();
      });
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
