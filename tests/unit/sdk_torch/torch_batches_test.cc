// The options of iter_torch_batches.
#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <thread>

#include "sdk/data/dataset_shard.h"
#include "tests/fakes/session.h"
#include "tests/unit/sdk_torch/failure_text.h"

namespace train {
namespace {

using testing::failure;
using ::testing::HasSubstr;

class TorchBatches : public ::testing::Test {
 protected:
  /// Five rows: x [i, i], y 0.5 i, word "i".
  TorchBatches() {
    fakes::session() = {};
    List rows;
    for (int i = 0; i < 5; ++i)
      rows.emplace_back(Dict{{"x", List{i, i}}, {"y", 0.5 * i}, {"word", std::to_string(i)}});
    add("train", std::move(rows));
    add("numbers", List{Dict{{"x", 1}, {"y", 0.5}}, Dict{{"x", 2}, {"y", 1.5}}});
  }
  ~TorchBatches() override { sdk::forget_dataset_shards(); }

  static void add(const std::string& name, List rows) {
    fakes::session().info.datasets[name] = Dict{{"format", "items"}, {"items", std::move(rows)}};
  }
  static TorchBatch first_of(const std::string& dataset, const TorchBatchOptions& options) {
    for (TorchBatch& batch : get_dataset_shard(dataset).iter_torch_batches(options)) return batch;
    ADD_FAILURE() << "no batch";
    return {};
  }
};

TEST_F(TorchBatches, HaveTheTypesThatDtypesNames) {
  TorchBatch batch = first_of("numbers", {.dtypes = {{"x", torch::kFloat16}}});

  EXPECT_TRUE(batch["x"].equal(torch::tensor({1., 2.}, torch::kFloat16)));
  EXPECT_TRUE(batch["y"].equal(torch::tensor({0.5, 1.5}, torch::kFloat64)));
  EXPECT_EQ(failure([] {
              first_of("numbers", {.dtypes = {{"z", torch::kInt8}}});
            }),
            "not_found: dataset 'numbers': turning a batch into tensors: a batch has no column "
            "\"z\" (it has \"x\", \"y\")");
}

TEST_F(TorchBatches, AreOnTheDeviceThatIsAskedFor) {
  const TorchBatch batch =
      first_of("numbers", {.dtypes = {{"x", torch::kFloat32}}, .device = torch::Device("meta")});

  for (const auto& [name, column] : batch.columns) EXPECT_TRUE(column.is_meta()) << name;
  EXPECT_EQ(batch.columns.at("x").scalar_type(), torch::kFloat32);
  EXPECT_EQ(batch.rows(), 2);
  EXPECT_EQ(failure([] { first_of("numbers", {.device = torch::Device("cuda:0")}); }),
            "invalid_argument: iter_torch_batches: device is cuda:0, and this worker sees no GPU "
            "(leave `device` out for the worker's own device)");
}

TEST_F(TorchBatches, PinNothingWithoutAGpuAndSaySoOnce) {
  ::testing::internal::CaptureStderr();
  for (int pass = 0; pass < 2; ++pass) {
    TorchBatch batch = first_of("numbers", {.pin_memory = true});
    EXPECT_FALSE(batch["x"].is_pinned());
    EXPECT_TRUE(batch["x"].equal(torch::tensor({1, 2}, torch::kInt64)));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "trainrun: pin_memory does nothing: this worker sees no GPU\n");
}

TEST_F(TorchBatches, LeaveOutAShortStepWithDropLast) {
  DatasetShard shard = get_dataset_shard("train");
  EXPECT_EQ(shard.iter_torch_batches({.batch_size = 2, .drop_last = true}).size(), 2);
  EXPECT_EQ(shard.iter_torch_batches({.batch_size = 2}).size(), 3);
  const BatchOptions for_arrow{.batch_size = 4, .drop_last = true};
  EXPECT_EQ(shard.iter_torch_batches(for_arrow).size(), 1);
}

/// Tensors of texts.
TorchBatch lengths_and_sums(const arrow::RecordBatch& rows) {
  const auto& words = static_cast<const arrow::StringArray&>(*rows.GetColumnByName("word"));
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 0; row < words.length(); ++row)
    numbers.push_back(std::stoi(words.GetString(row)));
  TorchBatch batch;
  batch.columns["number"] = torch::tensor(numbers);
  batch.columns["sum"] = batch.columns["number"].sum().reshape({1});
  return batch;
}

TEST_F(TorchBatches, AreWhatCollateFnMakesOnTheReadingThread) {
  for (const int prefetch : {0, 2}) {
    std::vector<std::thread::id> threads;
    std::vector<std::int64_t> numbers;
    for (TorchBatch& batch : get_dataset_shard("train").iter_torch_batches({.batch_size = 2,
                             .prefetch_batches = prefetch,
                             .dtypes = {{"number", torch::kInt32}},
                             .collate_fn = [&](const arrow::RecordBatch& rows) {
                               threads.push_back(std::this_thread::get_id());
                               EXPECT_FALSE(torch::GradMode::is_enabled());
                               return lengths_and_sums(rows);
                             }})) {
      EXPECT_EQ(batch.columns.size(), 2u);
      EXPECT_EQ(batch["number"].scalar_type(), torch::kInt32);
      EXPECT_EQ(batch["sum"].item<std::int64_t>(), batch["number"].sum().item<std::int64_t>());
      EXPECT_EQ(batch.rows(), batch["number"].size(0));
      EXPECT_EQ(batch.valid_rows, batch.rows());
      for (std::int64_t row = 0; row < batch.rows(); ++row)
        numbers.push_back(batch["number"][row].item<std::int64_t>());
    }
    EXPECT_THAT(numbers, ::testing::ElementsAre(0, 1, 2, 3, 4));
    ASSERT_EQ(threads.size(), 3u);
    EXPECT_EQ(threads[0] == std::this_thread::get_id(), prefetch == 0);
  }
}

TEST_F(TorchBatches, TheLoopGetsTheExceptionOfCollateFnAtItsBatch) {
  for (const int prefetch : {0, 2}) {
    int batches = 0, calls = 0;
    const auto loop = [&] {
      for (TorchBatch& batch : get_dataset_shard("train").iter_torch_batches({.batch_size = 2,
                               .prefetch_batches = prefetch,
                               .collate_fn = [&](const arrow::RecordBatch& rows) {
                                 if (++calls == 3) throw std::runtime_error("a word is missing");
                                 return lengths_and_sums(rows);
                               }})) {
        EXPECT_TRUE(batch["number"].defined());
        ++batches;
      }
    };
    EXPECT_THAT(failure(loop), HasSubstr("dataset 'train': collate_fn: a word is missing"));
    EXPECT_EQ(batches, 2);
  }
  EXPECT_EQ(failure([] {
              first_of("train", {.collate_fn = [](const arrow::RecordBatch&) {
                         TorchBatch batch;
                         batch.columns["x"] = torch::Tensor();
                         return batch;
                       }});
            }),
            "invalid_argument: dataset 'train': collate_fn: column 'x' has no tensor");
}

TEST_F(TorchBatches, PrepareNoMoreThanTheirBytes) {
  // The reading thread holds one batch beside the queue. More would be a queue without bounds.
  std::atomic<int> made = 0;
  std::int64_t handed_out = 0;
  for (TorchBatch& batch : get_dataset_shard("train").iter_torch_batches({.batch_size = 1,
                           .prefetch_batches = 16,
                           .prefetch_bytes = 0,
                           .collate_fn = [&](const arrow::RecordBatch& rows) {
                             ++made;
                             return lengths_and_sums(rows);
                           }})) {
    EXPECT_EQ(batch.rows(), 1);
    EXPECT_LE(made, ++handed_out + 2);
  }
  EXPECT_EQ(made, 5);
}

}  // namespace
}  // namespace train
