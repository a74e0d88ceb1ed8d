// Times what a checkpoint of 1 GiB on train::device() costs: gpu_checkpoint FOLDER. Prints lines
// "WHAT MILLISECONDS". gpu_checkpoint.py does the same in PyTorch.
#include <train/torch.h>
#include <train/train.h>

#include <chrono>
#include <cstdio>
#include <functional>

namespace {

constexpr int kRounds = 5;
constexpr std::int64_t kRows = 1 << 20;  // of 1 KiB

void await_device() {
  if (train::device().is_cuda()) torch::cuda::synchronize();
}

void measure(const std::string& what, const std::function<void()>& body) {
  await_device();
  const auto start = std::chrono::steady_clock::now();
  body();
  await_device();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%s %.1f\n", what.c_str(), took.count());
}

/// Time the copy that a report waits for; the rest of a checkpoint happens in the background.
void measure_copies(int tensors) {
  train::ShardedState state;
  for (int i = 0; i < tensors; ++i) {
    state.replicated("t" + std::to_string(i),
                     torch::rand({kRows / tensors, 256}, torch::device(train::device())));
  }
  for (int i = 0; i < kRounds; ++i) {
    measure("copy-" + std::to_string(tensors),
            [&] { train::detail::stage_state({.sharded = {&state}}); });
  }
}

void measure_files(const std::string& folder) {
  torch::Tensor weights = torch::rand({kRows, 256}, torch::device(train::device()));
  train::ShardedState state;
  state.replicated("weights", weights);
  for (int i = 0; i < kRounds; ++i) {
    measure("save", [&] { train::save_state(folder, {.sharded = {&state}}); });
    measure("load", [&] { train::load_state(folder, {.sharded = {&state}}); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [&] {
    measure_copies(8);
    measure_copies(400);
    measure_files(argc > 1 ? argv[1] : ".");
  });
}
