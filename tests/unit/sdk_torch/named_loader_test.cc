// Loaders with a name, whose place is part of each checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>

#include "sdk/torch/loader_cursor.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/numbers.h"

namespace train {
namespace {

using testing::failure;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using torch::data::transforms::Stack;

class NamedLoader : public ::testing::Test {
 protected:
  NamedLoader() { start(1, 0); }
  ~NamedLoader() override { testing::fake_checkpoint().reset(); }

  /// Be another process, which resumes from `checkpoint`.
  static void start(int world_size, int rank, std::optional<Dict> checkpoint = std::nullopt) {
    sdk::forget_loader_cursors();
    testing::told_positions().clear();
    testing::fake_worker() = {};
    testing::fake_worker().world_size = world_size;
    testing::fake_worker().rank = rank;
    testing::fake_checkpoint() = std::move(checkpoint);
  }
  static Dict checkpoint() { return Dict{{"data", testing::told_positions()}}; }
  static auto loader(std::int64_t rows, const torch::data::DataLoaderOptions& loading,
                     ShardOptions options = {.seed = 3}) {
    options.name = "train";
    return prepare_data_loader(Numbers(rows).map(Stack<>()), loading, options);
  }
  static Dict cursor(std::int64_t epoch, std::int64_t rows_done, std::int64_t rows = 10) {
    return Dict{
        {"data",
         Dict{{"loader/train",
               Dict{{"epoch", epoch},
                    {"rows", rows_done},
                    {"order",
                     Dict{{"version", 1}, {"rows", rows}, {"shuffle", true}, {"seed", 3}}}}}}}};
  }
};

TEST_F(NamedLoader, EachCheckpointHasTheBatchesThatTheLoopHasReceived) {
  for (const std::size_t workers : {0, 1, 3}) {
    SCOPED_TRACE(workers);
    start(1, 0);
    auto mine = loader(10, pairs(workers));
    std::int64_t received = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& batch : mine) {
        received += batch.data.size(0);
        EXPECT_EQ(Value(checkpoint()), Value(cursor(epoch, received - std::int64_t{10} * epoch)));
      }
      EXPECT_EQ(Value(checkpoint()), Value(cursor(epoch + 1, 0)));
    }
  }
}

using Steps = std::vector<std::vector<std::int64_t>>;  // rows of all ranks, sorted

/// The next `steps` steps (0: those up to the end of the epoch) of the group whose ranks `start`
/// begins. Also calls `after_step` after each.
Steps steps_of(int world_size, std::int64_t global_batch, std::size_t steps,
               const std::function<void(int rank)>& start,
               const std::function<void()>& after_step) {
  Steps all;
  for (int rank = 0; rank < world_size; ++rank) {
    start(rank);
    auto mine = prepare_data_loader(
        Numbers(60).map(Stack<>()),
        torch::data::DataLoaderOptions(static_cast<std::size_t>(global_batch / world_size))
            .workers(static_cast<std::size_t>(rank % 3)),
        {.seed = 3, .name = "train"});
    std::size_t step = 0;
    for (auto& batch : mine) {
      if (all.size() == step) all.emplace_back();
      for (std::int64_t i = 0; i < batch.data.size(0); ++i)
        all[step].push_back(batch.data[i].template item<std::int64_t>());
      after_step();
      if (++step == steps) break;
    }
    if (steps == 0) after_step();
  }
  for (auto& rows : all) std::sort(rows.begin(), rows.end());
  return all;
}

TEST_F(NamedLoader, EachStepHasTheRowsOfAnUndisturbedRunAtAnyWorldSize) {
  constexpr std::int64_t kGlobalBatch = 12;
  std::optional<Dict> at;
  const auto run = [&](int world_size, std::size_t steps) {
    const auto before = at;
    return steps_of(
        world_size, kGlobalBatch, steps, [&](int rank) { start(world_size, rank, before); },
        [&] { at = checkpoint(); });
  };
  Steps expected;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Steps more = run(1, 0);
    EXPECT_EQ(more.size(), 5U);
    expected.insert(expected.end(), more.begin(), more.end());
  }

  at.reset();
  Steps seen;
  // In the last step of an epoch, a rest without a batch is left.
  const std::vector<std::pair<int, std::size_t>> groups = {{2, 2}, {3, 1}, {1, 2},  {4, 0},
                                                           {6, 4}, {2, 0}, {12, 3}, {1, 0}};
  for (const auto& [world_size, steps] : groups) {
    const Steps more = run(world_size, steps);
    seen.insert(seen.end(), more.begin(), more.end());
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(NamedLoader, ALoopThatIsLeftEndsItsEpochWithAndWithoutARestart) {
  for (const std::size_t workers : {0, 3}) {
    SCOPED_TRACE(workers);
    start(1, 0);
    auto first = loader(10, pairs(workers));
    leave_after(2, first);
    const Dict at = checkpoint();
    EXPECT_EQ(Value(at), Value(cursor(1, 0)));
    EXPECT_EQ(first.sampler().epoch(), 1U);
    const auto undisturbed = pass(first);

    {
      auto moved = std::move(first);  // the first process ends
    }
    start(1, 0, at);
    auto second = loader(10, pairs(workers));
    EXPECT_EQ(second.sampler().epoch(), 1U);
    EXPECT_EQ(pass(second), undisturbed);
  }
}

TEST_F(NamedLoader, AnExceptionInTheLoopLeavesItsEpochUnderWay) {
  auto first = loader(10, pairs(2));
  std::vector<std::int64_t> seen;
  try {
    for (auto& batch : first) {
      for (std::int64_t i = 0; i < batch.data.size(0); ++i)
        seen.push_back(batch.data[i].item<std::int64_t>());
      if (seen.size() == 4) throw std::runtime_error("stopped");
    }
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(Value(checkpoint()), Value(cursor(0, 4)));
  const Dict at = checkpoint();

  start(1, 0, at);
  sdk::forget_loader_cursors();
  auto second = loader(10, pairs(0));
  const auto rest = pass(second);
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_THAT(seen, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(NamedLoader, AnotherOneOfItsNameContinuesWhereTheLastOneWas) {
  start(1, 0, cursor(4, 6));
  std::vector<std::int64_t> rows;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto mine = loader(10, pairs(2));
    EXPECT_EQ(mine.sampler().epoch(), 4U + static_cast<unsigned>(epoch));
    EXPECT_EQ(pass(mine).size(), epoch == 0 ? 4U : 10U);
  }
}

TEST_F(NamedLoader, SaysWhatIsWrong) {
  const auto fails = [](std::int64_t rows, const ShardOptions& options = {.seed = 3}) {
    return failure([&] { loader(rows, pairs(0), options); });
  };
  start(1, 0, cursor(4, 6));
  EXPECT_EQ(fails(11),
            "invalid_argument: loader 'train': the sampler's state is for a different order of "
            "rows: it was saved for 10 rows, shuffled with seed 3, and this one has 11 rows, "
            "shuffled with seed 3 (make the sampler with the size and the options that it was "
            "saved with)");
  EXPECT_THAT(fails(10, {.seed = 4}), HasSubstr("this one has 10 rows, shuffled with seed 4"));
  EXPECT_EQ(fails(10), "none");
  start(1, 0, cursor(4, 0));  // no row of epoch 4 was consumed, so it may have others
  EXPECT_EQ(fails(11), "none");
  start(1, 0, cursor(4, 11));
  EXPECT_EQ(fails(10),
            "corrupt: loader 'train': the sampler's state says that 11 of 10 rows are done");
  start(1, 0, Dict{{"data", Dict{{"loader/train", Dict{{"epoch", 4}}}}}});
  EXPECT_THAT(fails(10), HasSubstr("the checkpoint's position of loader 'train': "));
  start(1, 0, Dict{{"data", Dict{{"loader/train", 7}}}});
  EXPECT_THAT(fails(10), HasSubstr("the checkpoint's position of loader 'train': "));
  start(1, 0, Dict{{"data", Dict{{"loader/other", 7}}}});
  EXPECT_EQ(fails(10), "none");
  start(1, 0, cursor(4, -6));
  EXPECT_EQ(fails(10), "corrupt: the checkpoint's position of loader 'train': rows is -6");

  start(1, 0);
  EXPECT_EQ(failure([] { loader(10, pairs(3).enforce_ordering(false)); }),
            "invalid_argument: loader 'train' returns batches in any order, so that a checkpoint "
            "cannot tell which rows were consumed (leave enforce_ordering on, or the loader's "
            "name out)");
  const auto taken = loader(10, pairs(0));
  EXPECT_EQ(fails(10), "invalid_argument: two loaders have the name 'train' (give each its own)");
  EXPECT_EQ(failure([] { DistributedSampler(10, {.name = "a b"}); }),
            "invalid_argument: a loader's name is \"a b\", and must be at most 64 letters, digits, "
            "'_', '-' and '.'");
}

}  // namespace
}  // namespace train
