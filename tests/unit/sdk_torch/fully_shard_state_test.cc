// Checkpoints of sharded models: at any world size, from and into models that are not sharded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"
#include "tests/unit/sdk_torch/shard_models.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::compare;
using ::testing::Each;
using testing::failure;
using ::testing::HasSubstr;
using testing::make_net;
using testing::results;
using testing::run_ranks;
using testing::state_of;
using testing::Tensors;
using testing::train_steps;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

class FullyShardState : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-fully-shard-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }
  void clear() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }

  fs::path folder_;
};

const AdamWOptions kOptions = AdamWOptions(0.05).weight_decay(0.1).amsgrad(true);

enum class Kind { Prepared, Sharded };

/// Call `use` with a model of this kind and an optimizer of it.
std::string with_model(Kind kind, std::uint64_t seed, const auto& use) {
  at::set_num_threads(1);
  if (kind == Kind::Prepared) {
    const auto model = prepare_model(make_net(seed));
    AdamW optimizer(model->parameters(), kOptions);
    return use(model, optimizer);
  }
  const auto model = fully_shard(make_net(seed));
  AdamW optimizer(model.parameters(), kOptions);
  return use(model, optimizer);
}

// All ranks train on the batches of rank 0, so that the world size makes no difference.
TEST_F(FullyShardState, IsLoadedAtAnyWorldSizeAndIntoModelsOfEitherKind) {
  const std::vector<std::pair<int, Kind>> cases{
      {1, Kind::Sharded}, {2, Kind::Sharded}, {2, Kind::Prepared}};
  for (const auto& [before, saved_as] : cases) {
    const auto saved = results(run_ranks(before, [&, kind = saved_as](int) {
      return with_model(kind, 1, [&](const auto& model, auto& optimizer) {
        train_steps(model, optimizer, 0, 0, 2);
        save_state(folder(), detail::state_of(model, optimizer));
        return std::string("saved");
      });
    }));
    EXPECT_THAT(saved, Each("saved"));
    for (const auto& [after, loaded_as] :
         {std::pair(1, Kind::Sharded), std::pair(2, Kind::Sharded), std::pair(2, Kind::Prepared),
          std::pair(1, Kind::Prepared)}) {
      const auto found = results(run_ranks(after, [&, kind = loaded_as](int) {
        Tensors expected;
        with_model(Kind::Prepared, 1, [&](const auto& model, auto& optimizer) {
          train_steps(model, optimizer, 0, 0, 4);
          expected = state_of(model);
          return std::string();
        });
        return with_model(kind, 7, [&](const auto& model, auto& optimizer) {
          load_state(folder(), detail::state_of(model, optimizer));
          train_steps(model, optimizer, 0, 2, 4);
          return compare(expected, state_of(model));
        });
      }));
      EXPECT_THAT(found, Each("equal")) << before << " to " << after;
    }
    clear();
  }
}

TEST_F(FullyShardState, NoRankWritesWhatAnotherHas) {
  const auto saved = results(run_ranks(3, [this](int) {
    const auto model = fully_shard(make_net());
    SGD optimizer(model.parameters(), SGDOptions(0.1).momentum(0.9));
    train_steps(model, optimizer, 0, 0, 1);
    save_state(folder(), detail::state_of(model, optimizer));
    std::int64_t bytes = 0;
    for (const auto& each : model.module()->buffers())
      bytes += static_cast<std::int64_t>(each.nbytes());
    const auto whole = model.whole();
    for (const auto& each : model.module()->parameters())
      bytes += static_cast<std::int64_t>(each.nbytes());
    return std::to_string(bytes);
  }));

  std::uintmax_t tensors = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const fs::path file = folder_ / ("rank-000" + std::to_string(rank)) / "model.safetensors";
    tensors += fs::file_size(file);
  }
  const double whole = std::stod(saved[0]);
  EXPECT_LT(static_cast<double>(tensors), whole + 3 * 4000);  // headers
  EXPECT_GE(static_cast<double>(tensors), whole);
  EXPECT_FALSE(fs::exists(folder_ / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "rank-0002" / "optimizer.safetensors"));
}

TEST_F(FullyShardState, AnOlderStateInTheSameFolderIsNotTakenForIt) {
  const auto of_another_model = results(run_ranks(3, [this](int) {
    const auto model = fully_shard(torch::nn::Sequential(testing::Block(6)));
    save_state(folder(), detail::state_of(model));
    return std::string("saved");
  }));
  EXPECT_THAT(of_another_model, Each("saved"));
  for (const auto& [kind, ranks] : {std::pair(Kind::Sharded, 2), std::pair(Kind::Prepared, 1),
                                    std::pair(Kind::Sharded, 1), std::pair(Kind::Prepared, 2)}) {
    const std::uint64_t seed = static_cast<std::uint64_t>(ranks) + (kind == Kind::Sharded ? 10 : 0);
    const auto saved = results(run_ranks(ranks, [&, kind = kind](int) {
      return with_model(kind, seed, [&](const auto& model, auto& optimizer) {
        train_steps(model, optimizer, 0, 0, 1);
        save_state(folder(), detail::state_of(model, optimizer));
        std::string sum = std::to_string(state_of(model)[0].sum().template item<double>());
        return sum;
      });
    }));
    const auto loaded = results(run_ranks(1, [&](int) {
      return with_model(Kind::Sharded, 99, [&](const auto& model, auto& optimizer) {
        load_state(folder(), detail::state_of(model, optimizer));
        return std::to_string(state_of(model)[0].sum().template item<double>());
      });
    }));
    EXPECT_EQ(loaded[0], saved[0]) << ranks;
  }
}

TEST_F(FullyShardState, OfAnotherModelOrOptimizerIsRefusedByName) {
  const auto found = results(run_ranks(1, [this](int) {
    const auto model = fully_shard(make_net());
    AdamW optimizer(model.parameters(), kOptions);
    train_steps(model, optimizer, 0, 0, 1);
    save_state(folder(), detail::state_of(model, optimizer));
    const auto loaded = [this](auto&&... into) {
      return failure([&] { load_state(folder(), detail::state_of(into...)); }) + "\n";
    };
    SGD other(model.parameters(), SGDOptions(0.1));
    torch::nn::Sequential smaller(testing::Block(6), torch::nn::Linear(6, 2));
    torch::optim::LBFGS lbfgs(model.parameters());
    return loaded(fully_shard(smaller)) + loaded(model, other) + loaded(torch::nn::Linear(2, 2)) +
           failure([&] { save_state(folder(), detail::state_of(model, lbfgs)); });
  }));

  EXPECT_THAT(found[0], HasSubstr("does not fit the model: missing \"0.scale\""));
  EXPECT_THAT(found[0], HasSubstr("unexpected \"blocks.0.scale\""));
  EXPECT_THAT(found[0], HasSubstr("does not fit the optimizer: it was saved as"));
  EXPECT_THAT(found[0], HasSubstr("missing \"bias\""));
  EXPECT_THAT(found[0], HasSubstr("LBFGS over a sharded model cannot be saved"));
}

}  // namespace
}  // namespace train
