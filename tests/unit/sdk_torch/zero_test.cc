// ZeroOptimizer on one to three ranks, against the optimizer alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch_loop.h>
#include <train/torch_zero.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using testing::failure;
using ::testing::HasSubstr;
using testing::results;
using testing::run_ranks;
using torch::optim::AdamOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

using Tensors = std::vector<torch::Tensor>;

/// Parameters of several sizes, the same on every rank.
Tensors some_parameters() {
  Tensors made;
  for (const std::int64_t size : {40, 3, 17, 1, 20})
    made.push_back(torch::linspace(-1, 1, 2 * size).reshape({2, size}).requires_grad_(true));
  return made;
}

/// Set the gradients of a step, the same on every rank.
void set_gradients(const Tensors& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() =
        torch::cos(parameters[i].detach() * (step + 1) + static_cast<double>(i));
}

bool equal(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& left, const auto& right) { return torch::equal(left, right); });
}

/// Take steps from `from` to `to`, with a schedule.
void train_steps(torch::optim::Optimizer& optimizer, LrSchedule& schedule,
                 const Tensors& parameters, int from, int to) {
  for (int step = from; step < to; ++step) {
    set_gradients(parameters, step);
    clip_grad_norm(optimizer, 2);
    optimizer.step();
    schedule.step();
  }
}

/// Return how a ZeroOptimizer's parameters compare to those of the optimizer alone.
template <class Local, class Options>
std::string compare(const Options& options) {
  at::set_num_threads(1);
  const Tensors whole = some_parameters(), parts = some_parameters();
  Local plain(whole, options);
  ZeroOptimizer<Local> zero(parts, options);
  LrSchedule plain_schedule(plain, lr::linear(20)), schedule(zero, lr::linear(20));
  train_steps(plain, plain_schedule, whole, 0, 6);
  train_steps(zero, schedule, parts, 0, 6);
  return equal(whole, parts) ? "equal" : "unlike";
}

TEST(Zero, HasTheBitsOfTheOptimizerAlone) {
  for (const int ranks : {1, 2, 3}) {
    const auto found = results(run_ranks(ranks, [](int) {
      return compare<AdamW>(AdamWOptions(0.1).weight_decay(0.1)) + " " +
             compare<torch::optim::Adam>(AdamOptions(0.1).amsgrad(true)) + " " +
             compare<FusedAdamW>(AdamWOptions(0.1));
    }));
    EXPECT_EQ(found,
              std::vector<std::string>(static_cast<std::size_t>(ranks), "equal equal equal"));
  }
}

TEST(Zero, HasTheBitsOfTheOptimizerAloneUnderAPreparedModel) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto train = [&](auto make) {
      torch::manual_seed(1);
      auto model = prepare_model(torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(),
                                                       torch::nn::Linear(16, 3)));
      auto optimizer = make(model->parameters());
      GradScaler scaler({.init_scale = 64});
      for (int step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        const auto x = torch::linspace(-1 - rank, 1 + step, 24).reshape({4, 6});
        scaler.scale((model->forward(x) - 1).square().mean()).backward();
        scaler.step(*optimizer);
        scaler.update();
      }
      Tensors found;
      for (const auto& parameter : model->parameters()) found.push_back(parameter.detach().clone());
      return found;
    };
    const Tensors whole =
        train([](Tensors of) { return std::make_unique<AdamW>(std::move(of), AdamWOptions(0.1)); });
    const Tensors parts = train([](Tensors of) {
      return std::make_unique<ZeroOptimizer<AdamW>>(std::move(of), AdamWOptions(0.1));
    });
    return std::string(equal(whole, parts) ? "equal" : "unlike");
  }));

  EXPECT_THAT(found, Each("equal"));
}

TEST(Zero, DealsParametersOutBySize) {
  const auto found = results(run_ranks(2, [](int) {
    const ZeroOptimizer<AdamW> zero(some_parameters());
    std::string text;
    for (const int owner : zero.owners()) text += std::to_string(owner);
    return text;
  }));

  EXPECT_THAT(found, Each("01101"));  // 80 elements; 40, 34, 6 and 2
}

class ZeroState : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-zero-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }

  fs::path folder_;
};

const AdamWOptions kOptions = AdamWOptions(0.1).amsgrad(true);

TEST_F(ZeroState, IsLoadedAtAnyWorldSize) {
  for (const int before : {1, 2, 3}) {
    const auto saved = results(run_ranks(before, [this](int) {
      at::set_num_threads(1);
      const Tensors parameters = some_parameters();
      ZeroOptimizer<AdamW> zero(parameters, kOptions);
      LrSchedule schedule(zero, lr::linear(20));
      train_steps(zero, schedule, parameters, 0, 3);
      save_state(folder(), detail::state_of(zero, schedule));
      return std::string("saved");
    }));
    EXPECT_THAT(saved, Each("saved"));
    for (const int after : {1, 2, 3}) {
      const auto found = results(run_ranks(after, [this](int) {
        at::set_num_threads(1);
        const Tensors whole = some_parameters();
        AdamW plain(whole, kOptions);
        LrSchedule plain_schedule(plain, lr::linear(20));
        train_steps(plain, plain_schedule, whole, 0, 3);
        Tensors parts;
        for (const auto& parameter : whole)
          parts.push_back(parameter.detach().clone().requires_grad_(true));
        ZeroOptimizer<AdamW> zero(parts, AdamWOptions(0.7).amsgrad(true));
        LrSchedule schedule(zero, lr::linear(20));
        load_state(folder(), detail::state_of(zero, schedule));
        train_steps(plain, plain_schedule, whole, 3, 6);
        train_steps(zero, schedule, parts, 3, 6);
        return std::string(equal(whole, parts) ? "equal" : "unlike");
      }));
      EXPECT_THAT(found, Each("equal")) << before << " to " << after;
    }
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
}

TEST_F(ZeroState, OfOtherParametersOrOptionsIsRefused) {
  const auto found = results(run_ranks(1, [this](int) {
    const Tensors parameters = some_parameters();
    ZeroOptimizer<AdamW> zero(parameters);
    save_state(folder(), detail::state_of(zero));
    const auto loaded = [&](auto&& other) {
      return failure([&] { load_state(folder(), detail::state_of(other)); }) + "\n";
    };
    ZeroOptimizer<AdamW> amsgrad(parameters, kOptions);
    ZeroOptimizer<torch::optim::Adam> other(parameters);
    ZeroOptimizer<AdamW> fewer(Tensors(parameters.begin(), parameters.end() - 1));
    ZeroOptimizer<AdamW> reversed(Tensors(parameters.rbegin(), parameters.rend()));
    AdamW plain(parameters);
    std::string text = loaded(amsgrad) + loaded(other) + loaded(fewer) + loaded(reversed);
    text += failure([&] { load_state(folder(), {.optimizers = {&plain}}); }) + "\n";
    zero.add_parameters({torch::ones(1)});
    text += failure([&] { zero.step(); }) + "\n";
    text += failure([&] { ZeroOptimizer<AdamW>({parameters[0], parameters[0]}); }) + "\n";
    torch::serialize::OutputArchive archive;
    text += failure([&] { zero.save(archive); });
    return text;
  }));

  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], HasSubstr("missing \"0.max_exp_avg_sq\""));
  EXPECT_THAT(found[0],
              HasSubstr("the state of a ZeroOptimizer<torch::optim::AdamW> does not fit a "
                        "ZeroOptimizer<torch::optim::Adam>"));
  EXPECT_THAT(found[0], HasSubstr("group 0 was saved with other parameters"));
  EXPECT_THAT(found[0], HasSubstr("\"0.exp_avg\" has the shape [2, 40] there, [2, 20] here"));
  EXPECT_THAT(found[0], HasSubstr("holds 0 modules and 0 optimizers, asked for 0 and 1"));
  EXPECT_THAT(found[0], HasSubstr("parameters were added after it was made"));
  EXPECT_THAT(found[0], HasSubstr("a parameter is there twice"));
  EXPECT_THAT(found[0], HasSubstr("an archive would hold the state of this rank only"));
}

}  // namespace
}  // namespace train
