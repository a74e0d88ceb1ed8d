// Reads the shard of `train` in batches of train_loop_config.batch_size. Its result is the number
// of batches, and column x of its rows; with `passes: N`, those of the last of N passes. Rank 1
// works for `work_us` on each row. Its map `rename` calls a column x. With `checkpoint: true`, all
// ranks report one at the end. `data_worker --serve CHECKPOINT TEXT…` prints what the preprocessors
// of the checkpoint make of texts in the column `name`.
#include <arrow/array/array_primitive.h>
#include <arrow/array/builder_binary.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <train/checkpoint.h>
#include <train/dataset.h>
#include <train/train.h>

#include <chrono>
#include <cstdio>
#include <string_view>

namespace {

int serve(int argc, char** argv) {
  arrow::StringBuilder builder;
  for (int i = 3; i < argc; ++i)
    if (!builder.Append(argv[i]).ok()) return 1;
  const auto names = builder.Finish().ValueOrDie();
  try {
    const auto rows =
        train::load_preprocessors(train::Checkpoint::open(argv[2]))
            .apply(arrow::RecordBatch::Make(arrow::schema({arrow::field("name", arrow::utf8())}),
                                            names->length(), {names}));
    const auto& numbers = static_cast<const arrow::Int64Array&>(*rows->GetColumnByName("name"));
    for (std::int64_t row = 0; row < numbers.length(); ++row)
      std::printf("%lld ", static_cast<long long>(numbers.Value(row)));
    return 0;
  } catch (const train::Failure& failure) {
    std::printf("%s", failure.what());
    return 1;
  }
}

void work(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--serve") return serve(argc, argv);
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
    const std::chrono::microseconds work_of_row(
        train::get_context().world_rank() == 1 ? config.get<std::int64_t>("work_us", 0) : 0);
    for (int pass = 0; pass < config.get<int>("passes", 1); ++pass) {
      batches = 0;
      rows.clear();
      for (const auto& batch :
           shard.iter_batches({.batch_size = config.get<std::int64_t>("batch_size")})) {
        ++batches;
        const auto column =
            std::static_pointer_cast<arrow::Int64Array>(batch.data->GetColumnByName("x"));
        for (std::int64_t row = 0; row < batch.valid_rows; ++row)
          rows.push_back(train::Value(column->Value(row)));
        work(work_of_row * batch.valid_rows);
        train::barrier();
      }
    }
    if (config.get<bool>("checkpoint", false))
      train::report({{"batches", batches}}, train::Checkpoint::from_json(train::Dict{}));
    return train::Value(train::Dict{{"batches", batches}, {"rows", rows}});
  });
}
