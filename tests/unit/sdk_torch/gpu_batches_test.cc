// Batches on their way to a GPU. These tests need one. Without it, each says so and is skipped.
#include <arrow/record_batch.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <chrono>
#include <thread>

#include "sdk/data/dataset_shard.h"
#include "tests/fakes/session.h"

namespace train {
namespace {

class GpuBatches : public ::testing::Test {
 protected:
  /// `count` rows: x [i, i + 1], b true where i is even.
  static DatasetShard rows(int count) {
    List items;
    for (int i = 0; i < count; ++i)
      items.emplace_back(Dict{{"x", List{i, i + 1}}, {"b", i % 2 == 0}});
    fakes::session() = {};
    fakes::session().info.datasets["train"] =
        Dict{{"format", "items"}, {"items", std::move(items)}};
    return get_dataset_shard("train");
  }
  void SetUp() override {
    if (!device().is_cuda()) GTEST_SKIP() << "NOT TESTED: this machine has no GPU";
  }
  void TearDown() override { sdk::forget_dataset_shards(); }
};

TEST_F(GpuBatches, AreThereWithTheirTypesAndValues) {
  DatasetShard shard = rows(1000);
  std::int64_t seen = 0;
  for (TorchBatch& batch : shard.iter_torch_batches(
           {.batch_size = 64, .dtypes = {{"x", torch::kFloat64}, {"b", torch::kInt32}}})) {
    ASSERT_EQ(batch["x"].device(), device());
    EXPECT_EQ(batch["x"].scalar_type(), torch::kFloat64);
    EXPECT_EQ(batch["b"].scalar_type(), torch::kInt32);
    const auto first = torch::arange(seen, seen + batch.rows(), torch::kFloat64);
    EXPECT_TRUE(batch["x"].cpu().equal(torch::stack({first, first + 1}, 1)));
    EXPECT_TRUE(batch["b"].cpu().equal(first.remainder(2).eq(0).to(torch::kInt32)));
    seen += batch.rows();
  }
  EXPECT_EQ(seen, 1000);
}

/// A type that takes fewer bytes is made before the copy; the values are those of the processor.
TEST_F(GpuBatches, AreRoundedAsOnTheProcessor) {
  for (const auto type : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
    DatasetShard shard = rows(3000);
    std::int64_t seen = 0;
    for (TorchBatch& batch :
         shard.iter_torch_batches({.batch_size = 3000, .dtypes = {{"x", type}}})) {
      const auto first = torch::arange(seen, seen + batch.rows(), torch::kInt64);
      EXPECT_TRUE(batch["x"].cpu().equal(torch::stack({first, first + 1}, 1).to(type)));
      seen += batch.rows();
    }
    sdk::forget_dataset_shards();
  }
}

/// Queue work that keeps the GPU's current stream busy for long.
torch::Tensor occupy(int products) {
  torch::Tensor matrix = torch::full({4096, 4096}, 1.0 / 4096, device());
  for (int i = 0; i < products; ++i) matrix = matrix.mm(matrix);
  return matrix;
}

bool idle(const c10::Stream& stream) { return stream.query(); }

/// The loop has queued a second of work when the batches come. Memory of the kinds that they take
/// is there from a pass before: to make it, the driver waits for the GPU.
TEST_F(GpuBatches, ComeWhileTheGpuIsBusyWithTheLoopsWork) {
  DatasetShard shard = rows(100);
  const TorchBatchOptions options{
      .batch_size = 10, .prefetch_batches = 4, .collate_fn = [](const arrow::RecordBatch& some) {
        TorchBatch batch;
        batch.columns["n"] = torch::full({1 << 20}, some.num_rows());
        return batch;
      }};
  const auto sum = torch::zeros({}, torch::TensorOptions(torch::kInt64).device(device()));
  for (TorchBatch& batch : shard.iter_torch_batches(options)) sum.add_(batch["n"][0]);
  occupy(8);  // loads what the products need
  sum.zero_();
  torch::cuda::synchronize();
  const c10::Stream loop = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(device());
  auto batches = shard.iter_torch_batches(options);
  const torch::Tensor product = occupy(400);
  ASSERT_FALSE(idle(loop)) << "the products were too short for this test";

  int taken = 0;
  for (TorchBatch& batch : batches) {
    sum.add_(batch["n"][0]);
    if (++taken == 3) break;
  }
  EXPECT_FALSE(idle(loop)) << "taking a batch waited for the loop's work";

  EXPECT_EQ(sum.item<std::int64_t>(), 3 * 10);
  EXPECT_TRUE(std::isfinite(product.sum().item<double>()));
}

/// The memory of a batch that was dropped is not filled again while the loop's work reads it.
TEST_F(GpuBatches, KeepTheirMemoryUntilTheLoopsWorkHasReadIt) {
  DatasetShard shard = rows(200);
  std::atomic<int> made = 0;
  std::vector<torch::Tensor> sums;
  torch::Tensor busy = occupy(1);
  for (TorchBatch& batch : shard.iter_torch_batches(
           {.batch_size = 10, .prefetch_batches = 4, .collate_fn = [&](const arrow::RecordBatch&) {
              TorchBatch one;
              one.columns["n"] = torch::full({1 << 20}, static_cast<std::int64_t>(++made));
              return one;
            }})) {
    for (int i = 0; i < 10; ++i) busy = busy.mm(busy);
    sums.push_back(batch["n"].sum());
  }
  ASSERT_EQ(sums.size(), 20u);
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(sums[i].item<std::int64_t>(), static_cast<std::int64_t>(i + 1) << 20) << i;
}

TEST_F(GpuBatches, StayInPinnedMemoryOnTheProcessorWhereThatIsAskedFor) {
  DatasetShard shard = rows(10);
  for (TorchBatch& batch : shard.iter_torch_batches(
           {.batch_size = 10, .device = torch::Device(torch::kCPU), .pin_memory = true})) {
    EXPECT_TRUE(batch["x"].device().is_cpu());
    EXPECT_TRUE(batch["x"].is_pinned());
    EXPECT_EQ(batch["x"][9][1].item<std::int64_t>(), 10);
  }
}

}  // namespace
}  // namespace train
