// When the parameters of a sharded model are whole, and when they are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"
#include "tests/unit/sdk_torch/shard_models.h"

namespace train {
namespace {

using testing::batch_of;
using testing::Block;
using testing::compare;
using ::testing::Each;
using testing::make_net;
using testing::results;
using testing::run_ranks;
using testing::state_of;
using testing::train_steps;
using torch::optim::SGD;
using torch::optim::SGDOptions;

/// Notes which of its neighbours have parameters while it computes, forward and backward.
struct ProbeImpl : torch::nn::Module {
  ProbeImpl(std::string* notes, std::vector<torch::Tensor>* weights)
      : notes_(notes), weights_(weights) {
    weight = register_parameter("weight", torch::eye(4));
    weights_->push_back(weight);
  }
  torch::Tensor forward(torch::Tensor x) {
    note();
    torch::Tensor y = torch::matmul(x, weight);
    y.register_hook([this](const at::TensorBase&) { note(); });
    return torch::sin(y);
  }
  void note() const {
    for (const auto& each : *weights_) *notes_ += each.numel() > 0 ? "#" : ".";
    *notes_ += " ";
  }
  torch::Tensor weight;

 private:
  std::string* notes_;
  std::vector<torch::Tensor>* weights_;
};
using Probe = ShardUnit<ProbeImpl>;

TEST(FullyShard, OnlyTheUnitThatComputesIsWhole) {
  const auto found = results(run_ranks(2, [](int) {
    const auto seen = [](const FullyShardOptions& options) {
      std::string notes;
      std::vector<torch::Tensor> weights;
      torch::nn::Sequential probes;
      for (int i = 0; i < 3; ++i) probes->push_back(Probe(&notes, &weights));
      const auto model = fully_shard(probes, options);
      for (int step = 0; step < 2; ++step) {
        model(torch::ones({2, 4})).sum().backward();
        for (const auto& each : weights) notes += each.numel() > 0 ? "#" : ".";
        notes += "\n";
      }
      return notes;
    };
    return seen({}) + seen({.reshard_after_forward = false}) + seen({.prefetch = false});
  }));

  // Three forward passes, three backward passes, and what is left. Prefetched rows are no
  // parameters yet.
  const std::string sharded = "#.. .#. ..# ..# .#. #.. ...\n",
                    kept = "#.. ##. ### ### ##. #.. ...\n";
  EXPECT_THAT(found, Each(sharded + sharded + kept + kept + sharded + sharded));
}

/// Takes what all units take, and gives it on.
struct SharingImpl : torch::nn::Module {
  SharingImpl(std::string* notes, std::vector<torch::Tensor>* weights)
      : probe(register_module("probe", std::make_shared<ProbeImpl>(notes, weights))) {}
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& shared,
                                                  const torch::Tensor& x) {
    return {probe->forward(x + shared), shared};
  }
  std::shared_ptr<ProbeImpl> probe;
};
struct SharingsImpl : torch::nn::Module {
  SharingsImpl(std::string* notes, std::vector<torch::Tensor>* weights) {
    for (int i = 0; i < 3; ++i)
      units.push_back(register_module(std::to_string(i), ShardUnit<SharingImpl>(notes, weights)));
    begin = register_module("begin", torch::nn::Linear(4, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor shared = begin(x);
    for (auto& unit : units) std::tie(x, shared) = unit->forward(shared, x);
    return x;
  }
  std::vector<ShardUnit<SharingImpl>> units;
  torch::nn::Linear begin{nullptr};
};

TEST(FullyShard, WhatAllUnitsTakeKeepsNoneOfThemWhole) {
  const auto found = results(run_ranks(2, [](int) {
    std::string notes;
    std::vector<torch::Tensor> weights;
    const auto model = fully_shard(std::make_shared<SharingsImpl>(&notes, &weights));
    for (int step = 0; step < 2; ++step) model(torch::ones({2, 4})).sum().backward();
    return notes;
  }));

  EXPECT_THAT(found, Each("#.. .#. ..# ..# .#. #.. #.. .#. ..# ..# .#. #.. "));
}

TEST(FullyShard, ARankMayUseAWholeModelWithoutTheOthers) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto prepared = prepare_model(make_net());
    SGD plain(prepared.parameters(), SGDOptions(0.1));
    train_steps(prepared, plain, rank, 0, 4);
    const auto sharded = fully_shard(make_net());
    SGD rows(sharded.parameters(), SGDOptions(0.1));
    train_steps(sharded, rows, rank, 0, 2);
    if (const auto whole = sharded.whole(); rank == 0) {
      const torch::NoGradGuard no_grad;
      auto& blocks = *sharded.module()->blocks;
      for (const int i : {2, 0, 1})
        blocks[static_cast<std::size_t>(i)]->as<Block>()->forward(torch::ones({2, 6}));
      sharded.eval();
      sharded(batch_of(0, 0));
      sharded.train();
    }
    train_steps(sharded, rows, rank, 2, 4);
    return compare(state_of(prepared), state_of(sharded));
  }));

  EXPECT_THAT(found, Each("equal"));
}

TEST(FullyShard, AForwardPassWithoutGradientsLeavesNothingWhole) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = fully_shard(make_net());
    model.eval();
    {
      const torch::NoGradGuard no_grad;
      model(batch_of(rank, 0));
    }
    std::int64_t left = 0;
    for (const auto& each : model.module()->parameters()) left += each.numel();
    return std::to_string(left);
  }));

  EXPECT_THAT(found, Each("0"));
}

TEST(FullyShard, APassSeesWhatTheOptimizerDidSinceAPassThatWasNotUsed) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = fully_shard(make_net(), {.reshard_after_forward = false});
    model.eval();
    const torch::Tensor unused = model(batch_of(rank, 0));  // leaves parameters whole
    for (const auto& piece : model.parameters()) {
      const torch::NoGradGuard no_grad;
      piece.zero_();
    }
    const double after = model(batch_of(rank, 0)).abs().max().item<double>();
    double whole = 0;
    for (const auto& each : state_of(model)) whole += each.abs().sum().item<double>();
    return std::to_string(after) + " " + std::to_string(whole);  // 6 running variances are 1
  }));

  EXPECT_THAT(found, Each("0.000000 6.000000"));
}

}  // namespace
}  // namespace train
