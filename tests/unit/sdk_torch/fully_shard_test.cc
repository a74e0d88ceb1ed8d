// Sharded models on one to three ranks, against prepared ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch_zero.h>

#include <memory>
#include <stdexcept>

#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"
#include "tests/unit/sdk_torch/shard_models.h"

namespace train {
namespace {

using testing::batch_of;
using testing::Block;
using testing::compare;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;
using testing::loss_of;
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

/// Return how a sharded model compares with a prepared one, after some steps of an optimizer.
template <class Optimizer, class Options>
std::string compare_models(int rank, const Options& options, const FullyShardOptions& how = {}) {
  at::set_num_threads(1);
  auto prepared = prepare_model(make_net());
  Optimizer plain(prepared->parameters(), options);
  train_steps(prepared, plain, rank, 0, 4);
  auto sharded = fully_shard(make_net(), how);
  Optimizer of_rows(sharded.parameters(), options);
  train_steps(sharded, of_rows, rank, 0, 4);
  return compare(state_of(prepared), state_of(sharded));
}

TEST(FullyShard, HasTheBitsOfAPreparedModelWhereGradientsAreAddedUpInTheSameOrder) {
  for (const int ranks : {1, 2, 3}) {  // of one node, which share memory
    const auto found = results(run_ranks(ranks, [](int rank) {
      const auto adamw = AdamWOptions(0.05).weight_decay(0.1);
      return compare_models<AdamW>(rank, adamw) + " " +
             compare_models<SGD>(rank, SGDOptions(0.1).momentum(0.9)) + " " +
             compare_models<AdamW>(rank, adamw, {.reshard_after_forward = false}) + " " +
             compare_models<AdamW>(rank, adamw, {.prefetch = false});
    }));
    EXPECT_THAT(found, Each("equal equal equal equal")) << ranks;
  }
}

TEST(FullyShard, IsCloseToAPreparedModelWhereTheyAreNot) {
  const auto found = results(run_ranks(3, [](int rank) {
    testing::fake_worker().collectives = "gloo";
    const auto options = SGDOptions(0.1).momentum(0.9);
    return compare_models<SGD>(rank, options) + " " +
           compare_models<SGD>(rank, options, {.reshard_after_forward = false});
  }));

  EXPECT_THAT(found, Each("close close"));
}

TEST(FullyShard, TakesTheFusedOptimizer) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto make = [] {
      torch::manual_seed(1);
      return torch::nn::Sequential(Block(5), Block(5));
    };
    const auto prepared = prepare_model(make());
    FusedAdamW plain(prepared->parameters(), AdamWOptions(0.01));
    train_steps(prepared, plain, rank, 0, 4);
    const auto sharded = fully_shard(make());
    FusedAdamW rows(sharded.parameters(), AdamWOptions(0.01));
    train_steps(sharded, rows, rank, 0, 4);
    return compare(state_of(prepared), state_of(sharded));
  }));

  EXPECT_THAT(found, Each(::testing::AnyOf("equal", "close")));  // it rounds ends of rows apart
}

TEST(FullyShard, EachRankKeepsItsRows) {
  const auto found = results(run_ranks(3, [](int) {
    const auto model = fully_shard(make_net());
    std::string text;
    for (const auto& item : model.named_parameters()) {
      const std::string& name = item.key();
      if (name != "embed.weight" && name.find("blocks.0") != 0) continue;
      std::ostringstream shape;
      shape << name << item.value().sizes() << " ";
      text += shape.str();
    }
    return text;
  }));

  EXPECT_THAT(found, ElementsAre("embed.weight[2, 5] blocks.0.scale[] blocks.0.up.weight[3, 6] "
                                 "blocks.0.up.bias[3] blocks.0.down.weight[2, 7] "
                                 "blocks.0.down.bias[2] ",
                                 "embed.weight[2, 5] blocks.0.scale[0] blocks.0.up.weight[2, 6] "
                                 "blocks.0.up.bias[2] blocks.0.down.weight[2, 7] "
                                 "blocks.0.down.bias[2] ",
                                 "embed.weight[2, 5] blocks.0.scale[0] blocks.0.up.weight[2, 6] "
                                 "blocks.0.up.bias[2] blocks.0.down.weight[2, 7] "
                                 "blocks.0.down.bias[2] "));
}

TEST(FullyShard, SeveralPassesAddUp) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto gradients = [rank](const auto& model, const auto& parameters) {
      model.module()->eval();  // batch statistics would depend on how rows are divided
      // One backward pass of two forward passes; then a graph that is used twice; then parts.
      (loss_of(model(batch_of(rank, 0))) + loss_of(model(batch_of(rank, 1)))).backward();
      const torch::Tensor loss = loss_of(model(batch_of(rank, 2)));
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      {
        const auto part = model.no_sync();
        loss_of(model(batch_of(rank, 3))).backward();
        loss_of(model(batch_of(rank, 4))).backward();
      }
      loss_of(model(batch_of(rank, 5))).backward();
      double sum = 0;
      for (const auto& each : parameters)
        sum += each.grad().defined() ? each.grad().square().sum().template item<double>() : 0;
      return sum;
    };
    const auto prepared = prepare_model(make_net());
    const double whole = gradients(prepared, prepared->parameters());
    const auto sharded = fully_shard(make_net());
    const double rows = gradients(sharded, sharded.parameters());
    const double all = detail::sums_over_ranks({rows}, "test")[0];
    return std::string(std::abs(all - whole) < 1e-4 * whole && rows < 0.9 * all
                           ? "as prepared"
                           : std::to_string(all) + " not " + std::to_string(whole));
  }));

  EXPECT_THAT(found, Each("as prepared"));
}

TEST(FullyShard, AccumulateTakesIt) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto train = [rank](const auto& model, auto&& parameters) {
      SGD optimizer(parameters, SGDOptions(0.1));
      Tensors batches;
      for (int i = 0; i < 4; ++i) batches.push_back(batch_of(rank, i));
      for (auto& micro : accumulate(model, batches, 2)) {
        (loss_of(model(micro.batch)) * micro.weight).backward();
        if (!micro.last) continue;
        optimizer.step();
        optimizer.zero_grad();
      }
      return state_of(model);
    };
    const auto prepared = prepare_model(make_net());
    const Tensors whole = train(prepared, prepared->parameters());
    const auto sharded = fully_shard(make_net());
    return compare(whole, train(sharded, sharded.parameters()));
  }));

  EXPECT_THAT(found, Each(::testing::AnyOf("equal", "close")));
}

TEST(FullyShard, GradientsAreClippedToTheNormOverAllRanks) {
  for (const double norm_type : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    const auto found = results(run_ranks(3, [norm_type](int rank) {
      at::set_num_threads(1);
      const auto prepared = prepare_model(make_net());
      loss_of(prepared(batch_of(rank, 0))).backward();
      const double expected =
          clip_grad_norm(prepared->parameters(), 0.01, {.norm_type = norm_type}).norm;
      const auto sharded = fully_shard(make_net());
      loss_of(sharded(batch_of(rank, 0))).backward();
      const double norm = clip_grad_norm(sharded.parameters(), 0.01, {.norm_type = norm_type}).norm;
      const double after = clip_grad_norm(sharded.parameters(), 1e9, {.norm_type = norm_type}).norm;
      if (std::abs(norm - expected) < 1e-5 * expected && std::abs(after - 0.01) < 1e-5)
        return std::string("clipped");
      return std::to_string(norm) + " of " + std::to_string(expected) + ", then " +
             std::to_string(after);
    }));
    EXPECT_THAT(found, Each("clipped")) << norm_type;
  }
}

TEST(FullyShard, AnInfinityInTheRowsOfOneRankStopsTheStepOfAll) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = fully_shard(make_net());
    SGD optimizer(model.parameters(), SGDOptions(0.1));
    GradScaler scaler({.init_scale = 8});
    std::string text;
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      scaler.scale(loss_of(model(batch_of(rank, step)))).backward();
      if (step == 0 && rank == 1)
        model.parameters().front().mutable_grad().fill_(std::numeric_limits<float>::infinity());
      text += scaler.step(optimizer) ? "stepped " : "skipped ";
      scaler.update();
    }
    std::int64_t skipped = 0;
    loss_of(model(batch_of(rank, 0))).backward();
    if (rank == 0) model.parameters().back().mutable_grad().fill_(std::nan(""));
    clip_grad_norm(optimizer, 1, {.skipped_steps = &skipped});
    return text + std::to_string(scaler.get_scale()) + " " + std::to_string(skipped);
  }));

  EXPECT_THAT(found, Each("skipped stepped 4.000000 1"));
}

/// What a unit may return, and a parameter that two units share.
struct PairImpl : torch::nn::Module {
  explicit PairImpl(torch::nn::Linear shared_linear)
      : shared(register_module("shared", std::move(shared_linear))),
        own(register_module("own", torch::nn::Linear(5, 5))) {}
  std::tuple<torch::Tensor, std::vector<torch::Tensor>> forward(torch::Tensor x,
                                                                std::optional<torch::Tensor> add) {
    if (x.size(0) == 1) throw std::runtime_error("one row only");
    torch::Tensor y = shared(x) + (add ? *add : torch::zeros_like(x));
    return {y, {own(y), torch::ones({1})}};
  }
  torch::nn::Linear shared, own;
};
struct PairsImpl : torch::nn::Module {
  PairsImpl() {
    torch::nn::Linear shared(5, 5);
    first = register_module("first", ShardUnit<PairImpl>(shared));
    second = register_module("second", ShardUnit<PairImpl>(shared));
  }
  torch::Tensor forward(torch::Tensor x) {
    auto [y, rest] = first->forward(x, std::nullopt);
    auto [z, more] = second->forward(y, rest[0]);
    return z + more[0];
  }
  ShardUnit<PairImpl> first{nullptr}, second{nullptr};
};
TORCH_MODULE(Pairs);

TEST(FullyShard, UnitsMayReturnTuplesAndShareParameters) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto make = [] {
      torch::manual_seed(3);
      return Pairs();
    };
    const auto prepared = prepare_model(make());
    SGD plain(prepared->parameters(), SGDOptions(0.1));
    // LibTorch lists the shared parameter twice.
    plain.param_groups()[0].params() = {
        prepared->first->shared->weight, prepared->first->shared->bias,
        prepared->first->own->weight,    prepared->first->own->bias,
        prepared->second->own->weight,   prepared->second->own->bias};
    train_steps(prepared, plain, rank, 0, 3);
    const auto sharded = fully_shard(make());
    SGD rows(sharded.parameters(), SGDOptions(0.1));
    std::string text = failure([&] {
      try {
        sharded(torch::ones({1, 5}));
      } catch (const std::runtime_error& error) {
        throw Failure("its own", error.what());
      }
    });
    train_steps(sharded, rows, rank, 0, 3);
    return text + ", " + std::to_string(sharded.named_parameters().size()) + " parameters, " +
           compare(state_of(prepared), state_of(sharded));
  }));

  EXPECT_THAT(found, Each("its own: one row only, 6 parameters, equal"));
}

TEST(FullyShard, FrozenParametersAreWholeForAsLongAsTheBackwardPassNeedsThem) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto make = [] {
      auto net = make_net();
      for (auto& item : net->named_parameters())  // as adapters do
        if (item.key().find(".down.bias") == std::string::npos)
          item.value().set_requires_grad(false);
      return net;
    };
    const auto prepared = prepare_model(make());
    SGD plain(prepared->parameters(), SGDOptions(0.1));
    train_steps(prepared, plain, rank, 0, 3);
    const auto sharded = fully_shard(make());
    SGD rows(sharded.parameters(), SGDOptions(0.1));
    train_steps(sharded, rows, rank, 0, 3);
    return compare(state_of(prepared), state_of(sharded));
  }));

  EXPECT_THAT(found, Each("equal"));
}

/// A model whose outermost part has frozen parameters between trained ones, and which changes views
/// in place.
struct MixedImpl : torch::nn::Module {
  MixedImpl() {
    for (int i = 0; i < 2; ++i) blocks->push_back(Block(5));
    register_module("blocks", blocks);
    frozen = register_module("frozen", torch::nn::Linear(5, 5));
    head = register_module("head", torch::nn::Linear(5, 5));
    for (auto& each : frozen->parameters()) each.set_requires_grad(false);
  }
  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = blocks->forward(x);
    y.mul_(2);
    return head(torch::tanh(frozen(y)));
  }
  torch::nn::Sequential blocks;
  torch::nn::Linear frozen{nullptr}, head{nullptr};
};
TORCH_MODULE(Mixed);

/// Returns a view of what it computed.
struct ViewImpl : torch::nn::Module {
  ViewImpl() { weight = register_parameter("weight", torch::ones({5, 5}) / 4); }
  torch::Tensor forward(const torch::Tensor& x) const noexcept {
    return torch::matmul(x, weight).view({x.size(0), 1, 5}).transpose(0, 1);
  }
  torch::Tensor weight;
};
struct ViewsImpl : torch::nn::Module {
  ViewsImpl() {
    for (auto& unit : units) unit = register_module(std::to_string(&unit - units), View());
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& unit : units) {
      auto y = unit->forward(x);
      y += 1;
      x = torch::tanh(y)[0];
    }
    return x;
  }
  using View = ShardUnit<ViewImpl>;
  View units[2] = {View{nullptr}, View{nullptr}};
};
TORCH_MODULE(Views);

TEST(FullyShard, TheBackwardPassFindsWhatItNeeds) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto alike = [rank](const auto& make) {
      const auto prepared = prepare_model(make());
      SGD plain(prepared.parameters(), SGDOptions(0.1));
      train_steps(prepared, plain, rank, 0, 3);
      const auto sharded = fully_shard(make());
      SGD rows(sharded.parameters(), SGDOptions(0.1));
      train_steps(sharded, rows, rank, 0, 3);
      return compare(state_of(prepared), state_of(sharded));
    };
    return alike([] {
             torch::manual_seed(2);
             return Mixed();
           }) +
           " " + alike([] { return Views(); });
  }));

  EXPECT_THAT(found, Each("equal equal"));
}

TEST(FullyShard, WhatNoSyncLeftIsForgottenWithTheGradients) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto model = fully_shard(make_net());
    model.eval();
    SGD optimizer(model.parameters(), SGDOptions(0.1));
    const auto gradients = [&](int step) {
      loss_of(model(batch_of(rank, step))).backward();
      Tensors copies;
      for (const auto& each : model.parameters()) copies.push_back(each.grad().clone());
      return copies;
    };
    const auto leave_some = [&] {
      const auto part = model.no_sync();
      loss_of(model(batch_of(rank, 1))).backward();
    };
    const Tensors expected = gradients(0);
    optimizer.zero_grad();
    leave_some();
    optimizer.zero_grad();
    const Tensors after = gradients(0);
    model.zero_grad();
    leave_some();
    model.zero_grad();
    return compare(expected, after) + " " + compare(expected, gradients(0));
  }));

  EXPECT_THAT(found, Each("equal equal"));
}

TEST(FullyShard, GradientsOfInputsNeedNoGradientsOfParameters) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto gradient = [rank](const auto& model) {
      model.module()->eval();
      auto x = batch_of(rank, 0).requires_grad_(true);
      return torch::autograd::grad({loss_of(model(x))}, {x})[0];
    };
    const auto sharded = fully_shard(make_net());
    std::string text = compare({gradient(prepare_model(make_net()))}, {gradient(sharded)}) + " ";
    for (const auto& each : sharded.parameters()) text += each.grad().defined() ? "gradient " : "";
    return text;
  }));

  EXPECT_THAT(found, Each("equal "));
}

TEST(FullyShard, APassAfterOneThatFailedIsRight) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto model = fully_shard(make_net());
    model.eval();
    SGD optimizer(model.parameters(), SGDOptions(0.1));
    const std::string why = failure([&] {
      auto out = model(batch_of(rank, 5));
      model.module()->head->weight.register_hook(
          [first = std::make_shared<bool>(true)](const at::TensorBase&) {
            if (std::exchange(*first, false)) throw Failure("of the user", "a hook");
          });
      loss_of(out).backward();
    });
    const auto prepared = prepare_model(make_net());
    prepared->eval();
    SGD plain(prepared.parameters(), SGDOptions(0.1));
    train_steps(prepared, plain, rank, 0, 3);
    train_steps(model, optimizer, rank, 0, 3);
    return why + ", " + compare(state_of(prepared), state_of(model));
  }));

  EXPECT_THAT(found, Each("of the user: a hook, equal"));
}

TEST(FullyShard, ParametersAreUsedInANarrowTypeAndKeptInTheirOwn) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto options =
        FullyShardOptions{.param_type = torch::kBFloat16, .reduce_type = torch::kFloat32};
    const auto model = fully_shard(torch::nn::Sequential(Block(5), Block(5)), options);
    AdamW optimizer(model.parameters(), AdamWOptions(0.05));
    const auto loss_at = [&](int step) {
      return loss_of(model(batch_of(rank, step).to(torch::kBFloat16)).to(torch::kFloat32));
    };
    const double before = loss_at(0).item<double>();
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      loss_at(0).backward();
      optimizer.step();
    }
    const auto whole = model.whole();
    return std::string(torch::toString(model.parameters()[0].scalar_type())) + " " +
           torch::toString(model.parameters()[0].grad().scalar_type()) + " " +
           torch::toString(model.module()->parameters()[0].scalar_type()) + " " +
           (loss_at(0).item<double>() < before / 2 ? "learns" : "does not learn");
  }));

  EXPECT_THAT(found, Each("Float Float BFloat16 learns"));
}

TEST(FullyShard, SaysWhichParametersGotNoGradient) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = fully_shard(make_net());
    return failure([&] {
      const auto whole = model.whole();
      model.module()->embed(batch_of(rank, 0)).sum().backward();
    });
  }));

  for (const std::string& text : found) {
    EXPECT_THAT(text, HasSubstr("parameters got no gradient in a backward pass: "));
    EXPECT_THAT(text, HasSubstr("\"blocks.0.scale\""));
  }
}

TEST(FullyShard, RanksThatDifferAreToldSo) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto shards = [](auto&& model, const FullyShardOptions& options = {}) {
      return failure([&] { fully_shard(model, options); }) + "\n";
    };
    return shards(torch::nn::Sequential(torch::nn::Linear(2, 2 + rank))) +
           shards(torch::nn::Sequential(
               torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(rank == 0)))) +
           shards(torch::nn::Sequential(torch::nn::Linear(2, 2)), {.prefetch = rank == 0}) +
           shards(torch::nn::Sequential(torch::nn::Linear(2, 2)),
                  {.reduce_type = rank == 0 ? std::nullopt : std::optional(torch::kFloat32)});
  }));

  EXPECT_THAT(found[0], HasSubstr("the ranks differ in the parameter \"0.weight\""));
  EXPECT_THAT(found[0], HasSubstr("one has 1 parameters, another 2"));
  EXPECT_THAT(found[0], ::testing::ContainsRegex("differ in the options(.|\n)*in the options"));
  EXPECT_EQ(found[0], found[1]);
}

TEST(FullyShard, IsRefusedWhereItDoesNotFit) {
  const auto found = results(run_ranks(1, [](int) {
    auto net = make_net();
    Block lone(6);
    std::string text;
    const auto note = [&](const std::function<void()>& call) { text += failure(call) + "\n"; };
    {
      const auto model = fully_shard(net);
      const auto of_block = fully_shard(torch::nn::Sequential(lone));
      SGD wrong(net->parameters(), SGDOptions(0.1));
      auto x = batch_of(0, 0).requires_grad_(true);
      note([&] { prepare_model(net); });
      note([&] { fully_shard(net); });
      note([&] { ZeroOptimizer<AdamW>(model.parameters()); });
      note([&] { clip_grad_norm(wrong, 1); });
      note([&] { detail::stage_state(detail::state_of(wrong)); });
      note([&] {
        torch::autograd::grad({loss_of(model(x))}, {x}, {}, true, /*create_graph=*/true);
      });
      note([&] { lone->clone(); });
      note([&] { clip_grad_norm(model.parameters(), 1, {.norm_type = 0}); });
      note([&] {
        auto out = model(batch_of(0, 0));
        out.register_hook([&](const at::TensorBase&) { model(batch_of(0, 0)); });
        out.sum().backward();
      });
    }
    note([&] { lone->forward(torch::ones({2, 6})); });
    note([&] { detail::stage_state(detail::state_of(net)); });
    return text;
  }));

  const std::string own = "the optimizer has a sharded module's own parameters, which are empty",
                    gone = "a module whose train::FullySharded was destroyed";
  std::istringstream lines(found[0]);
  for (const std::string& part :
       {std::string("prepare_model: the model is sharded already"),
        std::string("train::fully_shard: the model is sharded already"),
        std::string("train::ZeroOptimizer: its parameters are those of a sharded"), own, own,
        std::string("sharded models have no second derivatives"),
        std::string("a train::ShardUnit cannot be cloned"), std::string("have no norm of type 0"),
        std::string("a sharded model was called within its backward pass"),
        "a forward pass of " + gone, "a parameter of " + gone}) {
    std::string line;
    std::getline(lines, line);
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(FullyShard, AUnitWorksInAModelThatIsNotSharded) {
  Block block(6);

  EXPECT_EQ(block->forward(torch::ones({2, 6})).sizes(), at::IntArrayRef({2, 6}));
}

}  // namespace
}  // namespace train
