// Trains a small network on train::device() for `steps` steps, with a checkpoint after each, and
// reports the device. In attempt 0, it kills itself before step `die_step`, once a checkpoint is
// committed and, if it is given, `die_file` exists; and before step `hang_step`, it waits for work
// of its device that takes minutes. Before step `busy_step`, it keeps its device busy until
// `busy_file` exists.
#include <signal.h>
#include <train/torch.h>
#include <train/train.h>
#include <unistd.h>

#include "tests/e2e/programs/file_wait.h"

namespace {

void die_where_asked(const train::Config& config, int step) {
  const train::Context& context = train::get_context();
  if (context.attempt() != 0 || step != config.get<int>("die_step", -1)) return;
  train::e2e::wait_for_file(context.storage_path() +
                            "/checkpoints/checkpoint_000001/.manifest.json");
  if (const auto file = config.get<std::string>("die_file", ""); !file.empty())
    train::e2e::wait_for_file(file);
  ::kill(::getpid(), SIGKILL);
}

torch::Tensor multiply(torch::Tensor matrix, int times) {
  for (int i = 0; i < times; ++i) matrix = matrix.mm(matrix);
  return matrix;
}

// Not inlined: a test looks for its name in the stacks.
[[gnu::noinline]] double wait_for_the_device() {
  const torch::Tensor product =
      multiply(torch::full({16384, 16384}, 1.0 / 16384, train::device()), 500);
  return product.sum().item<double>();
}

void hold_up_where_asked(const train::Config& config, int step) {
  if (train::get_context().attempt() == 0 && step == config.get<int>("hang_step", -1))
    wait_for_the_device();
  if (step != config.get<int>("busy_step", -1)) return;
  const std::string file = config.get<std::string>("busy_file");
  while (::access(file.c_str(), F_OK) != 0) {
    const auto product = multiply(torch::full({4096, 4096}, 1.0 / 4096, train::device()), 20);
    (void)product.sum().item<double>();
  }
}

void train_noise(const train::Config& config) {
  auto model = train::prepare_model(torch::nn::Sequential(
      torch::nn::Linear(8, 32), torch::nn::Dropout(0.5), torch::nn::Linear(32, 1)));
  train::FusedAdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  int step = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    checkpoint->load(model, optimizer);
    step = train::start_epoch();
  }
  for (; step < config.get<int>("steps"); ++step) {
    die_where_asked(config, step);
    hold_up_where_asked(config, step);
    optimizer.zero_grad();
    const auto loss = model->forward(torch::randn({16, 8}, train::device())).square().mean();
    loss.backward();
    optimizer.step();
    train::report({{"epoch", step},
                   {"loss", loss.item<double>()},
                   {"in_attempt", train::get_context().attempt()},
                   {"device", train::device().str()},
                   {"parameters_on", model->parameters().front().device().str()}},
                  train::Checkpoint::from_state(model, optimizer));
  }
}

}  // namespace

// A global that asks LibTorch for CUDA before main, as programs do.
const torch::Device any_device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);

int main(int argc, char** argv) {
  torch::manual_seed(1);  // a process that stands by has done so already
  return train::run(argc, argv, train_noise);
}
