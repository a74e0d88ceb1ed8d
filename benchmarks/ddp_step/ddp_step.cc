// Times data-parallel training steps. torchrun's variables or train-run start it as one rank.
// ddp_step.py does the same in PyTorch, and run.py runs the two in turn.
//   ddp_step --model mlp|vit --steps N [--optimizer sgd|adamw|fused|zero] [--shard yes]
#include <train/torch_shard.h>
#include <train/torch_zero.h>
#include <train/train.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "examples/cifar10_vit/vision_transformer.h"

namespace {

constexpr int kWarmUpSteps = 5;  // the second one makes the reducer's buckets anew

struct Options {
  std::string model = "mlp", optimizer = "adamw";
  int steps = 50;
  bool shard = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--model")
      options.model = argv[i + 1];
    else if (flag == "--optimizer")
      options.optimizer = argv[i + 1];
    else if (flag == "--steps")
      options.steps = std::stoi(argv[i + 1]);
    else if (flag == "--shard")
      options.shard = true;
    else
      throw std::runtime_error("unknown flag " + flag);
  }
  return options;
}

/// Make a network of four layers with 10.5 million parameters; each layer is a unit.
torch::nn::Sequential make_mlp() {
  using Linear = train::ShardUnit<torch::nn::LinearImpl>;
  using torch::nn::ReLU;
  return torch::nn::Sequential(Linear(1024, 2048), ReLU(), Linear(2048, 2048), ReLU(),
                               Linear(2048, 2048), ReLU(), Linear(2048, 10));
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        std::vector<torch::Tensor> parameters) {
  if (name == "sgd") return std::make_unique<torch::optim::SGD>(std::move(parameters), 1e-3);
  if (name == "adamw") return std::make_unique<torch::optim::AdamW>(std::move(parameters), 1e-3);
  if (name == "zero")
    return std::make_unique<train::ZeroOptimizer<torch::optim::AdamW>>(std::move(parameters), 1e-3);
  if (name == "fused") return std::make_unique<train::FusedAdamW>(std::move(parameters), 1e-3);
  throw std::runtime_error("unknown optimizer " + name);
}

template <class Model>
void measure(const Options& options, const Model& model, const torch::Tensor& input) {
  auto optimizer = make_optimizer(options.optimizer, model.parameters());
  const auto images = input.to(train::device());
  const auto target = torch::randint(10, {input.size(0)}).to(train::device());
  std::vector<double> milliseconds;
  for (int step = 0; step < kWarmUpSteps + options.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    optimizer->zero_grad();
    torch::nn::functional::cross_entropy(model(images), target).backward();
    optimizer->step();
    if (train::device().is_cuda()) torch::cuda::synchronize();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (step >= kWarmUpSteps) milliseconds.push_back(took.count());
  }
  if (train::get_context().world_rank() != 0) return;
  std::int64_t parameters = 0;
  for (const auto& parameter : model.parameters()) parameters += parameter.numel();
  std::printf("{\"parameters\": %lld, \"step_ms\": [", static_cast<long long>(parameters));
  for (std::size_t i = 0; i < milliseconds.size(); ++i)
    std::printf("%s%.3f", i == 0 ? "" : ", ", milliseconds[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [&] {
    const Options options = parse(argc, argv);
    torch::manual_seed(1);
    if (options.model == "mlp") {
      const auto input = torch::randn({32, 1024});
      if (options.shard)
        measure(options, train::fully_shard(make_mlp()), input);
      else
        measure(options, train::prepare_model(make_mlp()), input);
    } else if (options.model == "vit") {
      measure(options, train::prepare_model(vit::VisionTransformer()),
              torch::randn({16, 3, 32, 32}));
    } else {
      throw std::runtime_error("unknown model " + options.model);
    }
  });
}
