// Reads the rows of a dataset in the spec, with trainrun::data.
#include <train/dataset.h>
#include <train/train.h>

#include <cstdint>

int main(int argc, char** argv) {
  return train::run(argc, argv, [] {
    std::int64_t rows = 0;
    for (auto& batch : train::get_dataset_shard("train").iter_batches({.batch_size = 2}))
      rows += batch.valid_rows;
    train::report({{"rows", rows}});
  });
}
