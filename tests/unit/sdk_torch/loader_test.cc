#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>

#include "sdk/torch/cuda_loader.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/numbers.h"

namespace train {
namespace {

using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;
using torch::data::transforms::Stack;

auto loader_of(int rank, int world_size, const ShardOptions& options,
               const torch::data::DataLoaderOptions& loading = pairs(0)) {
  testing::fake_worker() = {};
  testing::fake_worker().rank = rank;
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
  auto loader = prepare_data_loader(Numbers(10, /*broken_row=*/3).map(Stack<>()), pairs(2),
                                    {.shuffle = false});
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

std::string saved(const DistributedSampler& sampler) {
  std::ostringstream bytes;
  torch::save(sampler, bytes);
  return bytes.str();
}

void load(const std::string& bytes, DistributedSampler& sampler) {
  std::istringstream in(bytes);
  torch::load(sampler, in);
}

using Rows = std::vector<std::size_t>;

Rows rest(DistributedSampler& sampler) {
  Rows all;
  while (const auto batch = sampler.next(2)) all.insert(all.end(), batch->begin(), batch->end());
  return all;
}

/// The rows that `world_size` ranks get from the pass that they load, each at most `count`, and
/// rank 0's state afterwards.
struct Shown {
  Rows rows;
  std::string state;
};
Shown show(std::size_t rows, std::size_t world_size, std::size_t count, const std::string& from) {
  Shown shown;
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    DistributedSampler sampler(rows, {.seed = 3}, world_size, rank);
    if (!from.empty()) load(from, sampler);
    sampler.reset();
    const auto mine = sampler.next(count);
    if (mine) shown.rows.insert(shown.rows.end(), mine->begin(), mine->end());
    if (rank == 0) shown.state = saved(sampler);
  }
  return shown;
}

TEST(DistributedSampler, GoesOnWithTheRowsThatWereNotConsumed) {
  for (const std::size_t rank : {0, 1}) {
    DistributedSampler first(10, {.seed = 3}, 2, rank, /*first_epoch=*/4);
    first.reset();
    first.next(2);
    const std::string bytes = saved(first);
    const Rows left = rest(first);
    first.reset();
    const Rows fifth = rest(first);
    DistributedSampler second(10, {.seed = 3}, 2, rank);
    second.reset();
    second.next(1);

    load(bytes, second);

    EXPECT_EQ(second.epoch(), 4U);
    EXPECT_EQ(saved(second), bytes);
    EXPECT_EQ(left.size(), 3U);
    EXPECT_EQ(rest(second), left);  // even without reset()
    load(bytes, second);
    second.reset();
    EXPECT_EQ(rest(second), left);
    second.reset();
    EXPECT_EQ(second.epoch(), 5U);
    EXPECT_EQ(rest(second), fifth);
  }
}

TEST(DistributedSampler, GoesOnExactlyWithOtherNumbersOfRanks) {
  const Shown two = show(24, 2, 3, "");
  const Shown three = show(24, 3, 2, two.state);
  const Shown four = show(24, 4, 24, three.state);

  Rows all = two.rows;
  all.insert(all.end(), three.rows.begin(), three.rows.end());
  all.insert(all.end(), four.rows.begin(), four.rows.end());
  EXPECT_EQ(two.rows.size(), 6U);
  EXPECT_EQ(three.rows.size(), 6U);
  Rows each(24);
  std::iota(each.begin(), each.end(), std::size_t{0});
  EXPECT_THAT(all, UnorderedElementsAreArray(each));
}

TEST(DistributedSampler, SetEpochKeepsARestoredPlaceOfThatEpochOnly) {
  DistributedSampler sampler(10, {.shuffle = false}, 2, 0);
  const SamplerState middle{.epoch = 4, .rows_done = 6, .rows = 10, .shuffle = false};
  sampler.restore(middle);
  sampler.set_epoch(4);
  EXPECT_EQ(sampler.state(), middle);
  sampler.reset();
  EXPECT_EQ(rest(sampler), (Rows{6, 8}));

  sampler.restore(middle);
  sampler.set_epoch(5);
  EXPECT_EQ(sampler.state().rows_done, 0U);
  sampler.set_epoch(4);
  sampler.reset();
  EXPECT_EQ(rest(sampler), (Rows{0, 2, 4, 6, 8}));
}

TEST(DistributedSampler, RefusesTheStateOfAnotherOrder) {
  DistributedSampler sampler(10, {.seed = 3}, 2, 0);
  sampler.reset();
  const std::string bytes = saved(sampler);
  const auto into = [&](std::size_t rows, const ShardOptions& options) {
    DistributedSampler other(rows, options, 2, 0);
    return failure([&] { load(bytes, other); });
  };

  EXPECT_EQ(into(10, {.seed = 3, .drop_last = true}), "none");
  EXPECT_EQ(
      into(11, {.seed = 3}),
      "invalid_argument: the sampler's state is for a different order of rows: it was saved for 10 "
      "rows, shuffled with seed 3, and this one has 11 rows, shuffled with seed 3 (make the "
      "sampler with the size and the options that it was saved with)");
  EXPECT_THAT(into(10, {.seed = 4}), HasSubstr("this one has 10 rows, shuffled with seed 4"));
  EXPECT_THAT(into(10, {.shuffle = false}), HasSubstr("this one has 10 rows, not shuffled"));
  EXPECT_EQ(failure([&] { sampler.restore({.rows_done = 11, .rows = 10, .seed = 3}); }),
            "corrupt: the sampler's state says that 11 of 10 rows are done");
}

TEST(DistributedSampler, SaysThatAnArchiveIsOfSomethingElse) {
  DistributedSampler sampler(10, {}, 2, 0);
  std::ostringstream out;
  torch::save(torch::data::samplers::SequentialSampler(10), out);

  EXPECT_EQ(failure([&] { load(out.str(), sampler); }),
            "invalid_argument: loading a sampler: the archive holds no state of a "
            "train::DistributedSampler: it has no number \"epoch\"");
}

TEST(DistributedSampler, TheCopyThatWasKeptKnowsWhatTorchsOwnLoaderAskedFor) {
  DistributedSampler sampler(10, {.shuffle = false}, 2, 0);
  auto loader = torch::data::make_data_loader(Numbers(10).map(Stack<>()), sampler, 2);

  EXPECT_THAT(leave_after(2, *loader), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(sampler.state().rows_done, 8U);
  leave_after(99, *loader);
  EXPECT_EQ(sampler.state(), (SamplerState{.epoch = 2, .rows = 10, .shuffle = false}));
}

TEST(DistributedSampler, CountsWhatItIsToldWhereALoaderAsksAhead) {
  DistributedSampler sampler(10, {.shuffle = false}, 2, 0);
  sampler.mark_consumed(0);
  auto loader = torch::data::make_data_loader(Numbers(10).map(Stack<>()), sampler, pairs(2));

  auto batch = loader->begin();
  EXPECT_EQ(sampler.state().rows_done, 0U);
  sampler.mark_consumed(static_cast<std::size_t>(batch->data.size(0)));
  EXPECT_EQ(sampler.state().rows_done, 4U);
}

TEST(DataLoader, BatchesThatWereReadAheadAreGivenOutAfterLoading) {
  for (const std::size_t workers : {0, 1, 3}) {
    SCOPED_TRACE(workers);
    auto whole = loader_of(0, 1, {.seed = 3});
    const auto rows = pass(whole), next = pass(whole);
    auto first = loader_of(0, 1, {.seed = 3}, pairs(workers));
    const auto seen = leave_after(2, first);
    auto second = loader_of(0, 1, {.seed = 3}, pairs(workers));

    load(saved(first.sampler()), second.sampler());

    auto all = seen;
    const auto left = pass(second);
    all.insert(all.end(), left.begin(), left.end());
    EXPECT_EQ(seen.size(), 4U);
    EXPECT_EQ(all, rows);
    EXPECT_EQ(pass(second), next);
  }
}

TEST(DataLoader, ALastBatchIsConsumedBeforeItsEpochEnds) {
  for (const std::size_t workers : {0, 2}) {
    SCOPED_TRACE(workers);
    auto loader = loader_of(0, 1, {.shuffle = false}, pairs(workers));
    leave_after(5, loader);
    EXPECT_EQ(loader.sampler().state(),
              (SamplerState{.epoch = 0, .rows_done = 10, .rows = 10, .shuffle = false}));

    auto again = loader_of(0, 1, {.shuffle = false}, pairs(workers));
    load(saved(loader.sampler()), again.sampler());
    EXPECT_THAT(pass(again), ElementsAre());
    EXPECT_EQ(again.sampler().epoch(), 1U);
    EXPECT_EQ(pass(again).size(), 10U);
  }
}

TEST(DataLoader, AfterItsLastBatchTheNextEpochIsSaved) {
  for (const std::size_t workers : {0, 2}) {
    SCOPED_TRACE(workers);
    auto loader = loader_of(0, 1, {.shuffle = false},
                            torch::data::DataLoaderOptions(4).workers(workers).drop_last(true));

    EXPECT_EQ(pass(loader).size(), 8U);
    EXPECT_EQ(loader.sampler().state(), (SamplerState{.epoch = 1, .rows = 10, .shuffle = false}));
  }
}

TEST(DataLoader, EndPassGivesUpTheRestOfALoopThatWasLeft) {
  auto loader = loader_of(0, 1, {.seed = 3}, pairs(2));
  auto whole = loader_of(0, 1, {.seed = 3});
  pass(whole);
  leave_after(1, loader);
  EXPECT_EQ(loader.sampler().epoch(), 0U);

  loader.sampler().end_pass();

  EXPECT_EQ(loader.sampler().state(), (SamplerState{.epoch = 1, .rows = 10, .seed = 3}));
  EXPECT_EQ(pass(loader), pass(whole));
}

TEST(DataLoader, SetEpochBeginsALoopThatWasLeftAnew) {
  auto loader = loader_of(0, 1, {.seed = 3}, pairs(2));
  auto whole = loader_of(0, 1, {.seed = 3});
  leave_after(1, loader);

  loader.set_epoch(0);

  EXPECT_EQ(loader.sampler().state(), (SamplerState{.epoch = 0, .rows = 10, .seed = 3}));
  EXPECT_EQ(pass(loader), pass(whole));
}

TEST(DataLoader, DoesNotSaveWhereBatchesComeInAnyOrder) {
  auto loader = loader_of(0, 1, {.seed = 3}, pairs(3).enforce_ordering(false));
  leave_after(1, loader);

  EXPECT_EQ(failure([&] { saved(loader.sampler()); }),
            "invalid_argument: it is unknown which rows were consumed: the loader returns batches "
            "in any order (leave enforce_ordering on, or save between two epochs, after end_pass() "
            "where a loop was left early)");
  pass(loader);
  EXPECT_EQ(loader.sampler().state().epoch, 2U);
}

TEST(DistributedSampler, WhatAPassLeavesOutIsLeftOutAtAnyWorldSize) {
  const auto last_state = [](std::size_t rows, int world_size, const ShardOptions& options,
                             const torch::data::DataLoaderOptions& loading) {
    testing::fake_worker() = {};
    testing::fake_worker().world_size = world_size;
    auto loader = prepare_data_loader(Numbers(static_cast<std::int64_t>(rows)).map(Stack<>()),
                                      loading, options);
    SamplerState last;
    for (auto& batch : loader) {
      static_cast<void>(batch);
      last = loader.sampler().state();
    }
    return last.rows_done;
  };

  EXPECT_EQ(last_state(11, 2, {.drop_last = true}, pairs(0)), 11U);  // row 11 has no partner
  EXPECT_EQ(last_state(11, 2, {}, pairs(2)), 11U);
  // Of the five rows of a rank, the last one makes no batch.
  EXPECT_EQ(last_state(10, 2, {}, pairs(2).drop_last(true)), 10U);
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
  EXPECT_THAT(loaded, HasSubstr("libtorch_cpu.so"));
  EXPECT_THAT(loaded, ::testing::Not(HasSubstr("libtorch_cuda.so")));
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
