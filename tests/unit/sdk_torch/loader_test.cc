#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "sdk/torch/cuda_loader.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

using ::testing::ElementsAre;
using testing::failure;
using ::testing::UnorderedElementsAre;
using torch::data::transforms::Stack;

/// Row i is the number i.
struct Numbers : torch::data::Dataset<Numbers> {
  explicit Numbers(std::int64_t count, std::size_t broken_row = SIZE_MAX)
      : rows(count), broken(broken_row) {}
  torch::data::Example<> get(std::size_t index) override {
    if (index == broken) throw std::runtime_error("this row cannot be read");
    const auto value = torch::full({1}, static_cast<std::int64_t>(index));
    return {value, value + 100};
  }
  torch::optional<std::size_t> size() const override { return static_cast<std::size_t>(rows); }
  std::int64_t rows;
  std::size_t broken;
};

template <class Loader>
std::vector<std::int64_t> pass(Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto& batch : loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
      EXPECT_EQ(batch.target[i].template item<std::int64_t>(),
                batch.data[i].template item<std::int64_t>() + 100);
      seen.push_back(batch.data[i].template item<std::int64_t>());
    }
  }
  return seen;
}

torch::data::DataLoaderOptions pairs(std::size_t workers) {
  return torch::data::DataLoaderOptions().batch_size(2).workers(workers);
}

auto loader_of(int rank, int world_size, const ShardOptions& options,
               const torch::data::DataLoaderOptions& loading = pairs(0)) {
  testing::fake_worker() = {};
  testing::fake_worker().world_rank = rank;
  testing::fake_worker().world_size = world_size;
  return prepare_data_loader(Numbers(10).map(Stack<>()), loading, options);
}

TEST(DataLoader, GivesEachRankItsOwnRows) {
  auto first = loader_of(0, 2, {.shuffle = false});
  auto second = loader_of(1, 2, {.shuffle = false});

  EXPECT_THAT(pass(first), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_THAT(pass(second), ElementsAre(1, 3, 5, 7, 9));
}

TEST(DataLoader, ReshufflesEachEpochAndShowsEachRowOnce) {
  auto first = loader_of(0, 2, {.seed = 3});
  auto second = loader_of(1, 2, {.seed = 3});

  std::vector<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto rows = pass(first);
    const auto others = pass(second);
    rows.insert(rows.end(), others.begin(), others.end());
    orders.push_back(rows);
    std::sort(rows.begin(), rows.end());
    EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(DataLoader, SetEpochReachesTheLoadersOwnSampler) {
  auto loader = loader_of(0, 2, {.seed = 3});
  const auto zero = pass(loader);
  const auto one = pass(loader);

  loader.set_epoch(0);

  EXPECT_EQ(pass(loader), zero);
  EXPECT_EQ(pass(loader), one);
}

/// A loop that is left after so many batches: the rows that it saw.
template <class Loader>
std::vector<std::int64_t> leave_after(std::size_t batches, Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto& batch : loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i)
      seen.push_back(batch.data[i].template item<std::int64_t>());
    if (--batches == 0) break;
  }
  return seen;
}

TEST(DataLoader, BeginsTheNextEpochAfterALoopThatWasLeftEarly) {
  for (const std::size_t workers : {0, 1, 3}) {
    auto whole = loader_of(0, 1, {.seed = 3});
    auto left = loader_of(0, 1, {.seed = 3}, pairs(workers));
    for (int epoch = 0; epoch < 4; ++epoch) {
      SCOPED_TRACE(::testing::Message() << workers << " workers, epoch " << epoch);
      auto expected = pass(whole);
      if (epoch % 2 == 0) expected.resize(4);

      EXPECT_EQ(epoch % 2 == 0 ? leave_after(2, left) : pass(left), expected);
    }
  }
}

TEST(DataLoader, ALeftEpochLeavesNoBatchInTheNextOneOfAnyOrder) {
  auto loader = loader_of(0, 1, {.seed = 3}, pairs(3).enforce_ordering(false));
  leave_after(1, loader);

  EXPECT_THAT(pass(loader), UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(DataLoader, BeginsTheNextEpochAfterAReaderThatThrew) {
  testing::fake_worker() = {};
  auto loader =
      prepare_data_loader(Numbers(10, /*broken=*/3).map(Stack<>()), pairs(2), {.shuffle = false});
  EXPECT_THROW(pass(loader), torch::data::WorkerException);

  EXPECT_THAT(leave_after(1, loader), ElementsAre(0, 1));
}

TEST(DataLoader, AnIteratorOfAnEarlierPassTakesNothingFromTheNextOne) {
  auto loader = loader_of(0, 1, {.shuffle = false}, pairs(2));
  auto earlier = loader.begin();
  auto later = loader.begin();

  EXPECT_EQ(failure([&] { ++earlier; }),
            "invalid_argument: this iterator is of a pass that ended when the loader's next one "
            "began");

  EXPECT_EQ(later->data[0].item<std::int64_t>(), 0);
  EXPECT_EQ((++later)->data[0].item<std::int64_t>(), 2);
}

TEST(DistributedSampler, BeginsAtTheRestoredEpoch) {
  testing::fake_worker() = {};
  testing::fake_worker().restored_epoch = 4;

  EXPECT_EQ(DistributedSampler(10).epoch(), 5U);
}

TEST(DistributedSampler, DropsIntoTorchsOwnLoader) {
  DistributedSampler sampler(10, {.shuffle = false}, /*world_size=*/5, /*rank=*/1);
  auto loader = torch::data::make_data_loader(Numbers(10).map(Stack<>()), sampler, 8);

  EXPECT_THAT(pass(*loader), ElementsAre(1, 6));
}

TEST(ToDevice, MovesWhatHoldsTensorsAndLeavesTheRest) {
  const torch::Device meta(torch::kMeta);

  EXPECT_EQ(to_device(torch::ones({2}), meta).device(), meta);
  EXPECT_EQ(
      to_device(torch::data::Example<>(torch::ones({2}), torch::ones({1})), meta).target.device(),
      meta);
  EXPECT_EQ(
      to_device(std::vector<torch::data::Example<>>{{torch::ones({2}), torch::ones({1})}}, meta)[0]
          .data.device(),
      meta);
  EXPECT_EQ(to_device(std::string("text"), meta), "text");
}

TEST(Device, IsTheCpuWithoutLoadingTheCudaLibrariesWhereNoGpuIsVisible) {
  EXPECT_EQ(device(), torch::Device(torch::kCPU));

  std::ifstream maps("/proc/self/maps");
  const std::string loaded{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(loaded, ::testing::HasSubstr("libtorch_cpu.so"));
  EXPECT_THAT(loaded, ::testing::Not(::testing::HasSubstr("libtorch_cuda.so")));
}

TEST(GpuVisible, NeedsTheDriverAndAListedDevice) {
  EXPECT_FALSE(sdk::gpu_visible(nullptr, /*driver_present=*/false));
  EXPECT_FALSE(sdk::gpu_visible("0", /*driver_present=*/false));
  EXPECT_TRUE(sdk::gpu_visible(nullptr, /*driver_present=*/true));
  EXPECT_TRUE(sdk::gpu_visible("0,1", /*driver_present=*/true));
  EXPECT_FALSE(sdk::gpu_visible("", /*driver_present=*/true));
  EXPECT_FALSE(sdk::gpu_visible("-1", /*driver_present=*/true));
}

}  // namespace
}  // namespace train
