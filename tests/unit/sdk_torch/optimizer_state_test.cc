#include "sdk/torch/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <train/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "sdk/torch/safetensors.h"
#include "sdk/torch/tensor_file.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using testing::failure;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kFlag = "TRAINRUN_ALLOW_CODE_IN_CHECKPOINTS";

class OptimizerState : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-optimizer-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    testing::fake_worker() = {};
    torch::manual_seed(1);
  }
  void TearDown() override {
    ::unsetenv(kFlag);
    fs::remove_all(folder_);
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  void save(torch::optim::Optimizer& optimizer) {
    save_state(folder_.string(), {.optimizers = {&optimizer}});
  }
  void load(torch::optim::Optimizer& optimizer) {
    load_state(folder_.string(), {.optimizers = {&optimizer}});
  }
  /// Write a checkpoint as earlier versions did, with the optimizer by torch::serialize.
  void save_old(torch::optim::Optimizer& optimizer) {
    save(optimizer);
    fs::remove(in("optimizer.safetensors"));
    std::ifstream file(in("torch_state.json"));
    Dict index = parse_json(std::string(std::istreambuf_iterator<char>(file), {})).as<Dict>();
    index["format"] = 1;
    std::ofstream(in("torch_state.json")) << to_json(Value(index));
    torch::save(optimizer, in("optimizer.pt"));
  }

  std::string bytes_of(const std::string& name) const {
    std::ifstream file(in(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Rewrite the saved optimizer with other contents.
  void change(const std::function<void(Dict& said, sdk::NamedTensors& tensors)>& how) const {
    const sdk::LoadedFile file = sdk::read_tensor_file(sdk::FileScan(in("optimizer.safetensors")));
    Dict said = parse_json(file.metadata.at("trainrun_optimizer")).as<Dict>();
    sdk::NamedTensors tensors(file.tensors.begin(), file.tensors.end());
    how(said, tensors);
    const sdk::StagedFile staged =
        sdk::stage_tensors(tensors, {{"trainrun_optimizer", to_json(Value(said))}});
    std::ofstream(in("optimizer.safetensors"), std::ios::binary)
        << staged.header
        << std::string_view(reinterpret_cast<const char*>(staged.data.data_ptr<std::uint8_t>()),
                            static_cast<std::size_t>(staged.data.numel()));
  }

  fs::path folder_;
};

void train_steps(torch::nn::Linear& linear, torch::optim::Optimizer& optimizer, int steps) {
  torch::manual_seed(7);
  for (int i = 0; i < steps; ++i) {
    const torch::Tensor rows =
        torch::randn({6, linear->options.in_features()}) + static_cast<double>(i);
    optimizer.step([&] {
      optimizer.zero_grad();
      torch::Tensor loss = (linear(rows) - 1).square().mean();
      loss.backward();
      return loss;
    });
  }
}

void copy(const torch::nn::Linear& from, torch::nn::Linear& to) {
  const torch::NoGradGuard no_grad;
  to->weight.copy_(from->weight);
  to->bias.copy_(from->bias);
}

/// Compare options and state bit by bit: the written files must be equal.
void expect_same(const torch::optim::Optimizer& one, const torch::optim::Optimizer& other) {
  const sdk::StagedFile left = sdk::stage_optimizer(one), right = sdk::stage_optimizer(other);
  EXPECT_EQ(left.header, right.header);
  EXPECT_TRUE(torch::equal(left.data, right.data));
}

TEST_F(OptimizerState, CodeInAFileOfTheOldFormatIsNotRun) {
  torch::nn::Linear linear(2, 1);
  torch::optim::SGD optimizer(linear->parameters(), 0.1);
  save_old(optimizer);
  torch::jit::Module crafted("Crafted");
  crafted.register_attribute("data", c10::TensorType::get(), torch::zeros({1}));
  crafted.define(
      "def __getstate__(self) -> int:\n  return 1\n"
      "def __setstate__(self, state: int):\n"
      "  self.data = torch.from_file('" +
      in("written") + "', True, 8, dtype=0)\n");
  crafted.save(in("optimizer.pt"));

  EXPECT_THAT(failure([&] { load(optimizer); }), StartsWith("invalid_argument: "));

  EXPECT_FALSE(fs::exists(in("written")));
  ::setenv(kFlag, "1", 1);
  EXPECT_NE(failure([&] { load(optimizer); }), "none");
  EXPECT_TRUE(fs::exists(in("written")));  // it would have run
}

TEST_F(OptimizerState, AFileOfTheOldFormatIsReadOnlyWhereThatIsAllowed) {
  torch::nn::Linear linear(2, 1), other(2, 1);
  torch::optim::AdamW optimizer(linear->parameters(), torch::optim::AdamWOptions(0.5));
  train_steps(linear, optimizer, 2);
  save_old(optimizer);
  torch::optim::AdamW loaded(other->parameters());

  EXPECT_EQ(failure([&] { load(loaded); }),
            "invalid_argument: " + in("optimizer.pt") +
                " is of an older format, which can hold code that runs when it is read (if you "
                "trust its author, set TRAINRUN_ALLOW_CODE_IN_CHECKPOINTS=1 in the job's env; "
                "newer checkpoints hold no code)");
  ::setenv(kFlag, "1", 1);
  load(loaded);

  expect_same(optimizer, loaded);
}

/// Make each kind of optimizer with options that differ from the defaults.
using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <class Optimizer, class Options>
Make maker(Options options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

std::map<std::string, Make> makers() {
  namespace optim = torch::optim;
  return {
      {"sgd", maker<optim::SGD>(optim::SGDOptions(0.1))},
      {"sgd_momentum", maker<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"adam", maker<optim::Adam>(optim::AdamOptions(0.1).betas({0.8, 0.95}).eps(1e-6))},
      {"adamw_amsgrad", maker<optim::AdamW>(optim::AdamWOptions(0.1).amsgrad(true))},
      {"fused_adamw", maker<FusedAdamW>(optim::AdamWOptions(0.1).weight_decay(0.3))},
      {"rmsprop", maker<optim::RMSprop>(optim::RMSpropOptions(0.1).alpha(0.9))},
      {"rmsprop_all",
       maker<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.5).centered(true))},
      {"adagrad", maker<optim::Adagrad>(optim::AdagradOptions(0.1).lr_decay(0.01))},
      {"lbfgs", maker<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(3).history_size(4))},
      {"lbfgs_wolfe",
       maker<optim::LBFGS>(optim::LBFGSOptions(1).max_iter(4).line_search_fn("strong_wolfe"))},
  };
}

class EachOptimizer : public OptimizerState, public ::testing::WithParamInterface<std::string> {
 protected:
  std::unique_ptr<torch::optim::Optimizer> make(const torch::nn::Linear& linear) const {
    return makers().at(GetParam())(linear->parameters());
  }
};

TEST_P(EachOptimizer, GoesOnAsIfItHadNeverStopped) {
  torch::nn::Linear linear(3, 2), other(3, 2);
  const auto optimizer = make(linear);
  train_steps(linear, *optimizer, 3);
  copy(linear, other);

  save(*optimizer);
  train_steps(linear, *optimizer, 3);
  const auto loaded = make(other);
  load(*loaded);
  train_steps(other, *loaded, 3);

  EXPECT_TRUE(torch::equal(linear->weight, other->weight));
  EXPECT_TRUE(torch::equal(linear->bias, other->bias));
  expect_same(*optimizer, *loaded);
}

TEST_P(EachOptimizer, BeforeItsFirstStepIsSavedToo) {
  torch::nn::Linear linear(3, 2);
  const auto optimizer = make(linear), loaded = make(linear);

  save(*optimizer);
  load(*loaded);

  expect_same(*optimizer, *loaded);
}

TEST_P(EachOptimizer, ADamagedHeaderNeverCrashesIt) {
  torch::nn::Linear linear(2, 1);
  const auto optimizer = make(linear);
  train_steps(linear, *optimizer, 2);
  save(*optimizer);
  const std::string whole = bytes_of("optimizer.safetensors");
  const std::size_t header = 8 + sdk::header_length(whole);
  const auto loaded = make(linear);

  for (std::size_t at = 0; at < header; at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 7);
    std::ofstream(in("optimizer.safetensors"), std::ios::binary) << damaged;
    EXPECT_THAT(failure([&] { load(*loaded); }), AnyOf("none", StartsWith("corrupt: ")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer,
                         ::testing::Values("sgd", "sgd_momentum", "adam", "adamw_amsgrad",
                                           "fused_adamw", "rmsprop", "rmsprop_all", "adagrad",
                                           "lbfgs", "lbfgs_wolfe"),
                         [](const auto& info) { return info.param; });

TEST_F(OptimizerState, GroupsKeepTheirOwnOptions) {
  torch::nn::Linear one(2, 2), two(2, 1);
  const auto groups = [&](double lr, double other_lr) {
    std::vector<torch::optim::OptimizerParamGroup> made;
    made.emplace_back(one->parameters(), std::make_unique<torch::optim::AdamOptions>(lr));
    made.emplace_back(two->parameters(), std::make_unique<torch::optim::AdamOptions>(other_lr));
    return made;
  };
  torch::optim::Adam optimizer(groups(0.5, 0.25)), loaded(groups(1, 1));
  train_steps(one, optimizer, 2);  // the second group has no state

  save(optimizer);
  load(loaded);

  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.5);
  EXPECT_EQ(loaded.param_groups()[1].options().get_lr(), 0.25);
  EXPECT_EQ(loaded.state().size(), 2U);
  expect_same(optimizer, loaded);
}

TEST_F(OptimizerState, HasTheFormThatIsWrittenDown) {
  torch::nn::Linear linear(2, 1);
  torch::optim::SGD optimizer(linear->parameters(), torch::optim::SGDOptions(0.5).momentum(0.25));
  linear(torch::ones({1, 2})).sum().backward();
  optimizer.step();

  save(optimizer);

  const auto header = sdk::parse_header(bytes_of("optimizer.safetensors"),
                                        bytes_of("optimizer.safetensors").size());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->metadata.at("trainrun_optimizer"),
            R"({"groups":[{"dampening":0.0,"lr":0.5,"momentum":0.25,"nesterov":false,)"
            R"("weight_decay":0.0}],"state":[{},{}]})");
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0], (sdk::TensorEntry{"0.momentum_buffer", "F32", {1, 2}, 0, 8}));
  EXPECT_EQ(header->tensors[1], (sdk::TensorEntry{"1.momentum_buffer", "F32", {1}, 8, 12}));
}

TEST_F(OptimizerState, NumbersThatJsonLacksComeBack) {
  torch::nn::Linear linear(2, 1);
  torch::optim::LBFGS optimizer(linear->parameters(), torch::optim::LBFGSOptions(1)),
      loaded(linear->parameters());
  auto state = std::make_unique<torch::optim::LBFGSParamState>();
  state->prev_loss(-std::numeric_limits<double>::infinity());
  state->t(std::numeric_limits<double>::quiet_NaN());
  optimizer.state()[linear->weight.unsafeGetTensorImpl()] = std::move(state);

  save(optimizer);
  load(loaded);

  const auto& found = static_cast<const torch::optim::LBFGSParamState&>(
      *loaded.state().at(linear->weight.unsafeGetTensorImpl()));
  EXPECT_EQ(found.prev_loss(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(found.t()));
}

struct Wrong {
  const char* name;
  std::function<void(Dict& said, sdk::NamedTensors& tensors)> change;
  const char* text;
};

class OptimizerFile : public OptimizerState, public ::testing::WithParamInterface<Wrong> {};

TEST_P(OptimizerFile, IsRefusedByNameAndChangesNothing) {
  torch::nn::Linear linear(2, 1);
  torch::optim::AdamW optimizer(linear->parameters(), torch::optim::AdamWOptions(0.5));
  train_steps(linear, optimizer, 1);
  save(optimizer);
  change(GetParam().change);
  torch::optim::AdamW loaded(linear->parameters(), torch::optim::AdamWOptions(0.125));

  EXPECT_EQ(failure([&] { load(loaded); }),
            "corrupt: " + in("optimizer.safetensors") + ": " + GetParam().text);

  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.125);
  EXPECT_TRUE(loaded.state().empty());
}

Dict& first(Dict& said, const char* list) {
  return std::get<Dict>(const_cast<Value::Storage&>(
      std::get<List>(const_cast<Value::Storage&>(said[list].storage()))[0].storage()));
}
torch::Tensor& named(sdk::NamedTensors& tensors, const std::string& name) {
  for (auto& [its_name, tensor] : tensors)
    if (its_name == name) return tensor;
  throw std::out_of_range(name);
}

const Wrong kWrong[] = {
    {"NoJson", [](Dict& said, auto&) { said.clear(); }, R"(the header lacks "groups")"},
    {"GroupMore",
     [](Dict& said, auto&) {
       said["groups"] = List{Dict{}, Dict{}};
     },
     "it holds 2 groups, the optimizer has 1"},
    {"StateLess", [](Dict& said, auto&) { said["state"] = List{Value()}; },
     "it holds 1 parameters, the optimizer has 2"},
    {"OptionMissing", [](Dict& said, auto&) { first(said, "groups").erase("eps"); },
     R"(group 0 lacks "eps")"},
    {"OptionMore", [](Dict& said, auto&) { first(said, "groups")["run"] = "rm"; },
     R"(group 0 has the unexpected entry "run")"},
    {"OptionOfAnotherType", [](Dict& said, auto&) { first(said, "groups")["lr"] = "fast"; },
     R"(group 0: "lr": found the string "fast", wanted a number)"},
    {"BetasOfThree",
     [](Dict& said, auto&) {
       first(said, "groups")["betas"] = List{0.1, 0.2, 0.3};
     },
     R"(group 0: "betas": expected two numbers, found [0.1,0.2,0.3])"},
    {"StepBelowZero", [](Dict& said, auto&) { first(said, "state")["step"] = -1; },
     R"(the state of parameter 0: "step": -1 is not a count)"},
    {"StepTooLarge",
     [](Dict& said, auto&) { first(said, "state")["step"] = std::int64_t{1} << 62; },
     R"(the state of parameter 0: "step": 4611686018427387904 is not a count)"},
    {"NumberMore", [](Dict& said, auto&) { first(said, "state")["code"] = 1; },
     R"(the state of parameter 0 has the unexpected entry "code")"},
    {"TensorMissing", [](Dict&, auto& tensors) { tensors.erase(tensors.begin()); },
     R"(the tensor "0.exp_avg" is missing)"},
    {"TensorMore",
     [](Dict&, auto& tensors) { tensors.emplace_back("7.exp_avg", torch::zeros({1})); },
     R"(the tensor "7.exp_avg" is unexpected)"},
    {"AnotherShape",
     [](Dict&, auto& tensors) {
       named(tensors, "0.exp_avg") = torch::zeros({2, 2});
     },
     R"(the tensor "0.exp_avg" is F32 [2, 2], expected floats of [1, 2])"},
    {"AnotherType",
     [](Dict&, auto& tensors) {
       named(tensors, "0.exp_avg") = torch::zeros({1, 2}, torch::kInt);
     },
     R"(the tensor "0.exp_avg" is I32 [1, 2], expected floats of [1, 2])"},
};
INSTANTIATE_TEST_SUITE_P(Wrong, OptimizerFile, ::testing::ValuesIn(kWrong),
                         [](const auto& info) { return std::string(info.param.name); });

// If the file has more than `history_size` entries, LibTorch writes beyond the end of its list.
TEST_F(OptimizerState, AHistoryThatIsLongerThanItsListIsRefused) {
  torch::nn::Linear linear(2, 1);
  torch::optim::LBFGS optimizer(linear->parameters(),
                                torch::optim::LBFGSOptions(0.1).max_iter(4).history_size(8));
  train_steps(linear, optimizer, 2);
  save(optimizer);
  change([](Dict& said, auto&) { first(said, "groups")["history_size"] = 1; });

  EXPECT_EQ(failure([&] { load(optimizer); }),
            "corrupt: " + in("optimizer.safetensors") +
                R"(: the state of parameter 0: "old_dirs" is longer than "history_size")");
  change([](Dict& said, auto&) { first(said, "groups")["history_size"] = 0; });
  EXPECT_THAT(failure([&] { load(optimizer); }), HasSubstr("must be from 1 to 1048576"));
  change([](Dict& said, auto&) { first(said, "state")["ro"] = std::int64_t{1} << 50; });
  EXPECT_THAT(failure([&] { load(optimizer); }), HasSubstr("is missing"));
}

struct Homemade : torch::optim::Optimizer {
  using Optimizer::Optimizer;
  torch::Tensor step(LossClosure) override { return {}; }
};

TEST_F(OptimizerState, OfATypeThatIsNotKnownIsRefusedWhenItIsSaved) {
  torch::nn::Linear linear(2, 1);
  Homemade optimizer(linear->parameters(), std::make_unique<torch::optim::SGDOptions>(0.1));

  EXPECT_EQ(failure([&] { save(optimizer); }),
            "invalid_argument: saving state: the state of train::(anonymous namespace)::Homemade "
            "cannot be saved or loaded (use an optimizer of torch::optim or one derived from it, "
            "or hand its tensors over in a ShardedState)");
}

TEST_F(OptimizerState, OfSparseGradientsIsSavedDense) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  torch::optim::SGD optimizer(table->parameters(), torch::optim::SGDOptions(0.5).momentum(0.5)),
      loaded(table->parameters(), 0.1);
  table(torch::tensor({1, 3})).sum().backward();
  optimizer.step();

  save(optimizer);
  load(loaded);

  const auto& state = static_cast<const torch::optim::SGDParamState&>(
      *loaded.state().at(table->weight.unsafeGetTensorImpl()));
  EXPECT_TRUE(torch::equal(state.momentum_buffer(),
                           torch::tensor({{0.F, 0.F}, {1.F, 1.F}, {0.F, 0.F}, {1.F, 1.F}})));
}

}  // namespace
}  // namespace train
