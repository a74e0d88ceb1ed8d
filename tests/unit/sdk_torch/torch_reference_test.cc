// The helpers of torch_loop.h give the numbers of PyTorch's own: torch_reference.py computes the
// same cases in Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch_loop.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>

#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

constexpr int kSteps = 60;
constexpr double kLr = 0.1;

using Numbers = std::map<std::string, std::vector<double>>;

const Numbers& of_pytorch() {
  static const Numbers numbers = [] {
    const std::string command = TRAIN_DEPS_DIR "/torch-venv-2.11.0-2/bin/python " TRAIN_SOURCE_DIR
                                               "/tests/unit/sdk_torch/torch_reference.py";
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      text.append(buffer, got);
    EXPECT_EQ(::pclose(pipe), 0);
    Numbers found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, word;
      words >> name;
      while (words >> word) found[name].push_back(std::stod(word));
    }
    return found;
  }();
  return numbers;
}

class TorchReference : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(TRAIN_DEPS_DIR "/torch-venv-2.11.0-2/bin/python"))
      GTEST_SKIP() << "Python's PyTorch is missing: run packaging/deps/install.sh test";
    at::set_num_threads(1);
    testing::fake_worker() = {};
  }

  static void expect_same(const std::string& name, const std::vector<double>& ours) {
    const auto found = of_pytorch().find(name);
    ASSERT_NE(found, of_pytorch().end()) << name;
    EXPECT_EQ(ours, found->second) << name;  // to the last bit
  }
  /// For what PyTorch computes step by step, and we by a formula.
  static void expect_near(const std::string& name, const std::vector<double>& ours) {
    const auto found = of_pytorch().find(name);
    ASSERT_NE(found, of_pytorch().end()) << name;
    ASSERT_EQ(ours.size(), found->second.size()) << name;
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], found->second[i], 1e-12 * kLr) << name << " at " << i;
  }
};

std::vector<double> flat(const std::vector<torch::Tensor>& tensors,
                         std::vector<double> first = {}) {
  for (const torch::Tensor& tensor : tensors) {
    const auto values = tensor.detach().to(torch::kFloat64).contiguous();
    first.insert(first.end(), values.data_ptr<double>(),
                 values.data_ptr<double>() + values.numel());
  }
  return first;
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    second = register_module("second", torch::nn::Linear(8, 2));
    const torch::NoGradGuard no_grad;
    int i = 0;
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(
          torch::linspace(-0.5 - i, 0.5 + i, parameter.numel()).reshape(parameter.sizes()));
      ++i;
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  std::vector<torch::Tensor> gradients() const {
    std::vector<torch::Tensor> found;
    for (const torch::Tensor& parameter : parameters()) found.push_back(parameter.grad());
    return found;
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Net);

torch::Tensor inputs(int step) { return torch::linspace(-1, 1 + step, 24).reshape({4, 6}); }

torch::optim::SGD some_optimizer() {
  return torch::optim::SGD(std::vector<torch::Tensor>{torch::zeros(1)},
                           torch::optim::SGDOptions(kLr));
}

TEST_F(TorchReference, SchedulesGiveTheLearningRatesOfPyTorchs) {
  const std::map<std::string, LrCurve> curves{
      {"warmup", lr::warmup(10, 0.25)},
      {"linear", lr::linear(40, 0.2)},
      {"cosine", lr::cosine(kSteps, 0.1)},
      {"steps", lr::steps(7, 0.5)},
      {"milestones", lr::milestones({41, 20, 5, 20}, 0.3)},
      {"lambda", lr::lambda([](std::int64_t step) { return 1 / (1 + static_cast<double>(step)); })},
      {"warmup_cosine", lr::warmup(10).cosine(40)},
      {"one_cycle", lr::one_cycle({.total_steps = kSteps})},
      {"one_cycle_linear", lr::one_cycle({.total_steps = kSteps, .linear = true})},
      {"one_cycle_three", lr::one_cycle({.total_steps = kSteps, .three_phase = true})}};
  for (const auto& [name, curve] : curves) {
    auto optimizer = some_optimizer();
    LrSchedule schedule(optimizer, curve);
    std::vector<double> rates;
    for (int step = 0; step < kSteps; ++step) {
      rates.push_back(schedule.lr());
      schedule.step();
    }
    expect_near("lr_" + name, rates);
  }
}

TEST_F(TorchReference, APlateauLowersTheLearningRateWherePyTorchsDoes) {
  const std::vector<double> metrics{1,   0.9, 0.9, 0.9, 0.9, 0.8, std::nan(""), 0.8, 0.8, 0.79999,
                                    0.8, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7,          0.7, 0.7};
  PlateauOptions least{.factor = 0.5, .patience = 1, .threshold = 0.05, .min_lr = 0.002};
  PlateauOptions most = least, absolute = least, cool = least;
  most.maximize = true, absolute.absolute = true, cool.cooldown = 3;
  for (const auto& [name, options] :
       std::map<std::string, PlateauOptions>{{"lr_plateau", least},
                                             {"lr_plateau_max", most},
                                             {"lr_plateau_abs", absolute},
                                             {"lr_plateau_cool", cool}}) {
    auto optimizer = some_optimizer();
    LrSchedule schedule(optimizer, options);
    std::vector<double> rates;
    for (const double metric : metrics) {
      schedule.step(metric);
      rates.push_back(schedule.lr());
    }
    expect_same(name, rates);
  }
}

TEST_F(TorchReference, ClippedGradientsHaveTheBitsOfPyTorchs) {
  struct Case {
    const char* name;
    double norm_type, max_norm;
  };
  for (const auto& [name, norm_type, max_norm] :
       {Case{"two", 2, 1}, Case{"one", 1, 3},
        Case{"inf", std::numeric_limits<double>::infinity(), 0.5}, Case{"large", 2, 1e6}}) {
    Net net;
    net(inputs(1)).square().mean().backward();
    const ClippedNorm clipped =
        clip_grad_norm(net->parameters(), max_norm, {.norm_type = norm_type});
    expect_same(std::string("clip_") + name, flat(net->gradients(), {clipped.norm}));
  }
}

TEST_F(TorchReference, TheScalerFindsTheScalesAndStepsOfPyTorchs) {
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(1e-3));
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  std::vector<double> scales;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    scaler.scale(net(inputs(step)).square().mean()).backward();
    if (step == 4 || step == 5)
      net->first->weight.mutable_grad()[0][0] = std::numeric_limits<float>::infinity();
    if (step % 2 == 0) {
      scaler.unscale(optimizer);
      clip_grad_norm(optimizer, 1.0);
    }
    EXPECT_EQ(scaler.step(optimizer), step != 4 && step != 5);
    scaler.update();
    scales.push_back(scaler.get_scale());
    scales.push_back(static_cast<double>(scaler.growth_tracker()));
  }
  EXPECT_EQ(scaler.skipped_steps(), 2);
  expect_same("scaler_scales", scales);
  expect_same("scaler_parameters", flat(net->parameters()));
}

TEST_F(TorchReference, AutocastComputesTheBitsOfPyTorchs) {
  for (const auto& [name, dtype] : std::map<std::string, torch::Dtype>{
           {"autocast_bf16", torch::kBFloat16}, {"autocast_f16", torch::kHalf}}) {
    Net net;
    torch::Tensor output, loss;
    {
      const Autocast autocast({.device = torch::kCPU, .dtype = dtype});
      output = net(inputs(2));
      loss = torch::nn::functional::mse_loss(output, torch::ones({4, 2}));
    }
    loss.backward();
    auto tensors = net->gradients();
    tensors.insert(tensors.begin(), {loss, output});
    expect_same(name, flat(tensors));
  }
}

/// Three batches of different sizes have the gradients of one batch of all their rows.
TEST_F(TorchReference, AccumulatedStepsAreThoseOfOneLargeBatch) {
  const auto model = prepare_model(Net());
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-4));
  std::vector<torch::Tensor> batches;
  for (int step = 0; step < 3; ++step)
    batches.insert(batches.end(), {inputs(step).slice(0, 0, 1), inputs(step + 1).slice(0, 0, 3),
                                   inputs(step + 2)});
  for (auto& micro : accumulate(model, batches, 3)) {
    (model(micro.batch).square().mean() * micro.weight).backward();
    if (!micro.last) continue;
    optimizer.step();
    optimizer.zero_grad();
  }

  const auto ours = flat(model->parameters());
  const auto& theirs = of_pytorch().at("accumulated");
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5) << i;
}

}  // namespace
}  // namespace train
