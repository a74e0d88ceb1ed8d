// These tests need a GPU. Without one, each says so and is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <train/torch_loop.h>
#include <train/torch_zero.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lib/base/text_file.h"
#include "lib/flight/flight_record.h"
#include "sdk/torch/cuda_loader.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/fused_steps.h"
#include "tests/unit/sdk_torch/ranks.h"
#include "tests/unit/sdk_torch/shard_models.h"

namespace train {
namespace {

// Count GPUs in a separate process, because CUDA does not survive a fork.
int gpu_count() {
  const auto ends = testing::run_ranks(1, [](int) {
    const sdk::CudaModule* cuda = sdk::cuda_module();
    return std::to_string(cuda == nullptr ? 0 : cuda->device_count());
  });
  return ends[0].exit_code == 0 ? std::stoi(ends[0].result) : -1;
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override { need(1); }
  static void need(int count) {
    const int found = gpu_count();
    ASSERT_GE(found, 0) << "a GPU is visible, but the CUDA part does not load";
    if (found < count)
      GTEST_SKIP() << "NOT TESTED: needs " << count << " GPUs, this machine shows " << found;
  }
};

TEST_F(Gpu, PreparesAModelOnTheDevice) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    auto model = prepare_model(torch::nn::Linear(4, 2));
    const auto loss = model(torch::ones({3, 4}, device())).sum();
    loss.backward();
    return loss.device().str() + " " + model->weight.grad().device().str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"cuda:0 cuda:0"});
}

TEST_F(Gpu, FusedAdamWStepsParametersOfSeveralTypes) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    // AdamW rounds to bfloat16 several times in a step, and the fused kernel once.
    return std::string(testing::fused_steps_equal_plain({torch::kFloat32, torch::kBFloat16}, 0.05)
                           ? "equal"
                           : "unlike");
  }));

  EXPECT_EQ(found, std::vector<std::string>{"equal"});
}

struct DropoutNetImpl : torch::nn::Module {
  DropoutNetImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    second = register_module("second", torch::nn::Linear(16, 1));
  }
  torch::Tensor forward(torch::Tensor x) {
    return second(torch::dropout(norm(first(x)), 0.5, is_training()));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(DropoutNet);

/// Train on random inputs, with random numbers of the device. Return the last loss.
double train_steps(DropoutNet& net, torch::optim::Optimizer& optimizer, int steps) {
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const auto loss = net(torch::randn({32, 8}, device())).square().mean();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

class Folder {
 public:
  Folder() { path_ = ::mkdtemp(pattern_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }

 private:
  char pattern_[32] = "/tmp/train-gpu-XXXXXX";
  std::string path_;
};

TEST_F(Gpu, TrainingGoesOnAsIfItHadNeverStopped) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    const Folder folder;
    DropoutNet net;
    auto model = prepare_model(net);
    FusedAdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
    train_steps(net, optimizer, 3);
    save_state(folder.path(), {.modules = {net.get()}, .optimizers = {&optimizer}});
    const double expected = train_steps(net, optimizer, 3);

    DropoutNet other;
    auto other_model = prepare_model(other);
    FusedAdamW other_optimizer(other->parameters(), torch::optim::AdamWOptions(1e-3));
    load_state(folder.path(), {.modules = {other.get()}, .optimizers = {&other_optimizer}});
    const double went_on = train_steps(other, other_optimizer, 3);
    return std::string(expected == went_on ? "the same" : "another") + " loss on " +
           other->first->weight.device().str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"the same loss on cuda:0"});
}

TEST_F(Gpu, WhatADeviceSavedACpuLoads) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    const Folder folder;
    DropoutNet net;
    auto model = prepare_model(net);
    torch::optim::AdamW optimizer(net->parameters());
    train_steps(net, optimizer, 2);
    save_state(folder.path(), {.modules = {net.get()}, .optimizers = {&optimizer}});

    DropoutNet on_cpu;
    torch::optim::AdamW cpu_optimizer(on_cpu->parameters());
    load_state(folder.path(), {.modules = {on_cpu.get()}, .optimizers = {&cpu_optimizer}});
    const bool same = torch::equal(net->first->weight.cpu(), on_cpu->first->weight) &&
                      torch::equal(net->norm->running_var.cpu(), on_cpu->norm->running_var);
    return std::string(same ? "the same" : "other") + " weights on " +
           on_cpu->first->weight.device().str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"the same weights on cpu"});
}

/// A checkpoint holds what the device's queue had been told before it, and nothing that came after.
TEST_F(Gpu, ACheckpointHoldsTheMomentAtWhichItWasTaken) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    const Folder folder;
    torch::Tensor weights = torch::zeros({64, 1 << 18}, device());  // 64 MiB
    ShardedState state;
    state.replicated("weights", weights);
    detail::stage_state({.sharded = {&state}});  // makes the buffers
    constexpr int kQueued = 5000;  // far more than are done before the copy is asked for
    for (int i = 0; i < kQueued; ++i) weights.add_(1);
    const auto write = detail::stage_state({.sharded = {&state}});
    weights.zero_();
    write(folder.path());

    load_state(folder.path(), {.sharded = {&state}});
    return std::to_string(weights.min().item<int>()) + " to " +
           std::to_string(weights.max().item<int>());
  }));

  EXPECT_EQ(found, std::vector<std::string>{"5000 to 5000"});
}

// ---- the helpers of torch_loop.h

TEST_F(Gpu, AutocastComputesInTheTypeThatWasAskedFor) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    auto model = prepare_model(torch::nn::Linear(16, 16));
    std::ostringstream text;
    for (const std::optional<torch::Dtype> dtype :
         {std::optional<torch::Dtype>(), std::optional(torch::kBFloat16)}) {
      model->zero_grad();
      torch::Tensor output, loss;
      {
        const Autocast autocast({.dtype = dtype});
        output = model(torch::ones({4, 16}, device()));
        loss = torch::nn::functional::mse_loss(output, torch::zeros_like(output));
      }
      loss.backward();
      text << output.scalar_type() << " " << loss.scalar_type() << " "
           << model->weight.grad().scalar_type() << "; ";
    }
    text << model(torch::ones({4, 16}, device())).scalar_type();
    return text.str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"Half Float Float; BFloat16 Float Float; Float"});
}

/// A model in float16 autocast, with a scaler and a schedule.
struct HalfTraining {
  explicit HalfTraining(double rate = 1e-2)
      : optimizer(net->parameters(), torch::optim::AdamWOptions(rate)),
        scaler({.init_scale = 1024, .growth_interval = 4}),
        schedule(optimizer, lr::warmup(3).cosine(20)) {}
  /// Train on random inputs. Before step `overflow_at`, one gradient becomes infinite.
  double steps(int count, int overflow_at = -1) {
    double last = 0;
    for (int i = 0; i < count; ++i) {
      optimizer.zero_grad();
      torch::Tensor loss;
      {
        const Autocast autocast({.dtype = torch::kHalf});
        loss = net(torch::randn({32, 8}, device())).square().mean();
      }
      scaler.scale(loss).backward();
      if (i == overflow_at)
        net->first->weight.mutable_grad()[0][0] = std::numeric_limits<float>::infinity();
      if (scaler.step(optimizer)) schedule.step();
      scaler.update();
      last = loss.item<double>();
    }
    return last;
  }
  StateRefs refs() {
    return {.modules = {net.get()}, .optimizers = {&optimizer}, .stateful = {&scaler, &schedule}};
  }
  DropoutNet net = [] {
    DropoutNet made;
    prepare_model(made);
    return made;
  }();
  FusedAdamW optimizer;
  GradScaler scaler;
  LrSchedule schedule;
};

TEST_F(Gpu, TheScalerSkipsAStepWithAnInfinityAndHalvesTheScale) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    HalfTraining training;
    training.steps(2);
    const auto before = training.net->first->weight.detach().clone();
    const double scale = training.scaler.get_scale();
    training.steps(1, /*overflow_at=*/0);
    std::ostringstream text;
    text << (torch::equal(training.net->first->weight, before) ? "the same" : "other")
         << " weights, " << training.scaler.skipped_steps() << " skipped, scale " << scale << " to "
         << training.scaler.get_scale();
    training.steps(4);  // the growth interval
    text << " to " << training.scaler.get_scale();
    return text.str();
  }));

  EXPECT_EQ(found,
            std::vector<std::string>{"the same weights, 1 skipped, scale 1024 to 512 to 1024"});
}

TEST_F(Gpu, MixedPrecisionGoesOnAsIfItHadNeverStopped) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    const Folder folder;
    HalfTraining first;
    first.steps(5, /*overflow_at=*/2);
    save_state(folder.path(), first.refs());
    const double expected = first.steps(6);

    HalfTraining second(0.5);
    load_state(folder.path(), second.refs());
    const double went_on = second.steps(6);
    const bool same = expected == went_on && first.scaler.state() == second.scaler.state() &&
                      first.schedule.lr() == second.schedule.lr() &&
                      torch::equal(first.net->first->weight, second.net->first->weight);
    return std::string(same ? "the same" : "another") + " end, " +
           std::to_string(second.scaler.skipped_steps()) + " skipped";
  }));

  EXPECT_EQ(found, std::vector<std::string>{"the same end, 1 skipped"});
}

TEST_F(Gpu, ClippingScalesGradientsOfTheDeviceOrRemovesThem) {
  const auto found = testing::results(testing::run_ranks(1, [](int) {
    auto model = prepare_model(torch::nn::Linear(2, 1));
    std::ostringstream text;
    for (const double factor : {1e3, std::nan("")}) {
      model->zero_grad();
      (model(torch::ones({1, 2}, device())) * factor).sum().backward();
      const ClippedNorm clipped = clip_grad_norm(model->parameters(), 1);
      text << (clipped.skipped ? "skipped " : "clipped ");
      if (!model->weight.grad().defined()) continue;
      const auto all = torch::cat({model->weight.grad().flatten(), model->bias.grad()});
      text << (std::abs(all.norm().item<double>() - 1) < 1e-5 ? "to 1 " : "wrongly ");
    }
    return text.str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"clipped to 1 skipped "});
}

TEST_F(Gpu, AReproducibleRunNeedsTheVariableOfCublasAndThenHasTheSameBits) {
  const auto with = [](const char* config) {
    return testing::run_ranks(1, [config](int) {
      if (config == nullptr ? ::unsetenv("CUBLAS_WORKSPACE_CONFIG") != 0
                            : ::setenv("CUBLAS_WORKSPACE_CONFIG", config, 1) != 0)
        return std::string("no environment");
      reproducible(3);
      DropoutNet net;
      auto model = prepare_model(net);
      FusedAdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
      std::ostringstream text;
      text << std::hexfloat << train_steps(net, optimizer, 5);
      return text.str();
    })[0];
  };

  EXPECT_THAT(with(nullptr).result, ::testing::HasSubstr("CUBLAS_WORKSPACE_CONFIG is not set"));
  const auto first = with(":4096:8"), second = with(":4096:8");
  EXPECT_EQ(first.exit_code, 0) << first.result;
  EXPECT_EQ(first.result, second.result);
}

TEST_F(Gpu, GradientsAreCompressedOverGloo) {
  const auto found = testing::results(testing::run_ranks(2, [](int rank) {
    if (::setenv("CUDA_VISIBLE_DEVICES", "0", 1) != 0) return std::string("setenv failed");
    testing::fake_worker().collectives = "gloo";
    auto model = prepare_model(torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false)),
                               {.compression = GradientCompression::Bf16});
    std::string text;
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      model(torch::full({1, 2}, 1.0 + 2.0 * rank, device())).sum().backward();
      text += std::to_string(model->weight.grad().mean().item<double>()) + " ";
    }
    return text;
  }));

  EXPECT_EQ(found, std::vector<std::string>(2, "2.000000 2.000000 2.000000 "));
}

TEST_F(Gpu, AZeroOptimizerHasTheBitsOfTheOptimizerAlone) {
  const auto found = testing::results(testing::run_ranks(2, [](int) {
    if (::setenv("CUDA_VISIBLE_DEVICES", "0", 1) != 0) return std::string("setenv failed");
    testing::fake_worker().collectives = "gloo";
    std::vector<torch::Tensor> whole, parts;
    for (const std::int64_t size : {100, 7, 30}) {
      whole.push_back(torch::linspace(-1, 1, size, device()).requires_grad_(true));
      parts.push_back(whole.back().detach().clone().requires_grad_(true));
    }
    FusedAdamW plain(whole, torch::optim::AdamWOptions(0.1));
    ZeroOptimizer<FusedAdamW> zero(parts, torch::optim::AdamWOptions(0.1));
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < whole.size(); ++i) {
        whole[i].mutable_grad() = torch::cos(whole[i].detach() * (step + 1));
        parts[i].mutable_grad() = whole[i].grad().clone();
      }
      plain.step();
      zero.step();
    }
    std::string text;
    for (std::size_t i = 0; i < whole.size(); ++i)
      text += torch::equal(whole[i], parts[i]) ? "equal " : "unlike ";
    return text + parts[0].device().str();
  }));

  EXPECT_EQ(found, std::vector<std::string>(2, "equal equal equal cuda:0"));
}

/// Return how a sharded model compares with a prepared one after some steps, and where its rows
/// are.
std::string compare_sharded(int rank) {
  const auto train = [rank](const auto& model) {
    torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(0.05));
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      testing::loss_of(model(testing::batch_of(rank, step).to(device()))).backward();
      clip_grad_norm(optimizer, 1);
      optimizer.step();
    }
    return testing::state_of(model);
  };
  // Without the normalization, whose parameters before it have gradients of zero and rounding.
  const auto make = [] {
    torch::manual_seed(1);
    return torch::nn::Sequential(testing::Block(5), testing::Block(5), testing::Block(5));
  };
  const auto sharded = fully_shard(make());
  const std::string found = testing::compare(train(prepare_model(make())), train(sharded));
  return (found == "equal" ? "close" : found) + " " + sharded.parameters()[0].device().str();
}

TEST_F(Gpu, AShardedModelTrainsAsAPreparedOne) {
  const auto found = testing::results(testing::run_ranks(1, compare_sharded));

  EXPECT_EQ(found, std::vector<std::string>{"close cuda:0"});
}

TEST_F(Gpu, AShardedModelTrainsOverNcclAsAPreparedOne) {
  need(2);
  if (IsSkipped()) return;

  const auto found = testing::results(testing::run_ranks(2, compare_sharded));

  EXPECT_EQ(found, (std::vector<std::string>{"close cuda:0", "close cuda:1"}));
}

/// As on a machine with fewer GPUs than ranks.
TEST_F(Gpu, RanksThatShareADeviceAverageGradientsAndBuffersOverGloo) {
  const auto found = testing::results(testing::run_ranks(2, [](int rank) {
    if (::setenv("CUDA_VISIBLE_DEVICES", "0", 1) != 0) return std::string("setenv failed");
    testing::fake_worker().collectives = "gloo";
    DropoutNet net;
    auto model = prepare_model(net);
    model->eval();  // no dropout
    model->norm->train();
    model(torch::full({4, 8}, 1.0 + rank, device()) + torch::arange(4, device()).unsqueeze(1))
        .sum()
        .backward();
    const auto gradient = model->first->weight.grad();
    return gradient.device().str() + " " + std::to_string(gradient.sum().item<double>()) + " " +
           std::to_string(model->norm->running_mean.sum().item<double>());
  }));

  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0].substr(0, 7), "cuda:0 ");
}

TEST_F(Gpu, NcclRefusesRanksThatShareADevice) {
  const auto ends = testing::run_ranks(2, [](int) {
    if (::setenv("CUDA_VISIBLE_DEVICES", "0", 1) != 0) return std::string("setenv failed");
    prepare_model(torch::nn::Linear(1, 1));
    return std::string("no error");
  });

  for (const auto& end : ends)
    EXPECT_THAT(end.result, ::testing::HasSubstr("two workers share a GPU, which NCCL does not"));
}

TEST_F(Gpu, AveragesGradientsOverNccl) {
  need(2);
  if (IsSkipped()) return;

  const auto found = testing::results(testing::run_ranks(2, [](int rank) {
    auto model = prepare_model(torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false)));
    model(torch::full({1, 2}, 1.0 + 2.0 * rank, device())).sum().backward();
    return std::to_string(model->weight.grad().mean().item<double>());
  }));

  EXPECT_EQ(found, (std::vector<std::string>{"2.000000", "2.000000"}));
}

/// Ask the rank's flight recorder, as a supervisor does (daemon/supervisor/workers/flight_dumps).
/// Return the name of its call with these sizes.
std::string recorded_call(const std::string& folder, int rank, const std::string& sizes) {
  const std::string pipe = folder + "/pipe-" + std::to_string(rank) + ".pipe";
  const std::string dump = folder + "/dump-" + std::to_string(rank);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool asked = false;
  while (std::chrono::steady_clock::now() < until) {
    // A thread of LibTorch makes the pipe.
    if (!asked && std::filesystem::is_fifo(pipe)) {
      std::ofstream out(pipe);
      asked = static_cast<bool>(out << "1" << std::flush);
    }
    const auto record = read_flight_record(read_text(dump));
    if (!record) continue;
    for (const auto& [group, calls] : record->groups)
      for (const auto& [number, call] : calls.calls)
        if (call.sizes == sizes) return call.name;
  }
  return "no dump";
}

void record_flights(const std::string& folder) {
  ::setenv("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", (folder + "/pipe-").c_str(), 1);
  ::setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", (folder + "/dump-").c_str(), 1);
}

TEST_F(Gpu, TheFlightRecorderOfNcclAnswersThroughItsPipe) {
  need(2);
  if (IsSkipped()) return;
  const Folder folder;

  const auto found = testing::results(testing::run_ranks(2, [&](int rank) {
    record_flights(folder.path());
    std::vector<torch::Tensor> tensors{torch::ones({4, 2}, device())};
    process_group()->allreduce(tensors)->wait();
    std::string said = recorded_call(folder.path(), rank, "Float [4, 2]");
    process_group()->barrier()->wait();
    return said;
  }));

  EXPECT_EQ(found, std::vector<std::string>(2, "all_reduce"));
}

/// A group of one, whose call waits for other work of the GPU.
TEST_F(Gpu, TheFlightRecorderAnswersWhileACallHangs) {
  const Folder folder;

  const auto ends = testing::run_ranks(1, [&](int) {
    record_flights(folder.path());
    const torch::Device gpu = device();
    const auto nccl = sdk::cuda_module()->make_nccl_backend(c10::make_intrusive<c10d::HashStore>(),
                                                            0, 1, std::chrono::minutes(10));
    std::vector<torch::Tensor> tensors{torch::ones({4, 2}, gpu)};
    nccl->allreduce(tensors)->wait();
    torch::Tensor matrix = torch::full({16384, 16384}, 1.0 / 16384, gpu);
    for (int i = 0; i < 500; ++i) matrix = matrix.mm(matrix);  // a minute and more
    std::vector<torch::Tensor> late{torch::ones({5, 3}, gpu)};
    const auto work = nccl->allreduce(late);
    const std::string said = recorded_call(folder.path(), 0, "Float [5, 3]");
    std::ofstream(folder.path() + "/said") << said << (work->isCompleted() ? " ended" : " waits");
    ::kill(::getpid(), SIGKILL);  // it would wait for the work
    return std::string();
  });

  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].signal, SIGKILL) << ends[0].result;
  EXPECT_EQ(read_text(folder.path() + "/said"), "all_reduce waits");
}

}  // namespace
}  // namespace train
