// Trains a small prepared model in steps of `step_ms`. Steps of `slow_rank` take `slow_ms` longer.
// Before step `hang_at`, rank 1 hangs.
#include <train/torch.h>
#include <train/train.h>

#include <chrono>
#include <thread>

namespace {

using std::chrono::milliseconds;

// Not inlined: tests look for its name in stacks.
[[gnu::noinline]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    torch::set_num_threads(1);
    const int rank = train::get_context().world_rank();
    auto model = train::prepare_model(torch::nn::Linear(4, 4));
    torch::optim::SGD optimizer(model->parameters(), /*lr=*/1e-3);
    milliseconds work(config.get<int>("step_ms", 10));
    if (rank == config.get<int>("slow_rank", -1)) work += milliseconds(config.get<int>("slow_ms"));
    for (int step = 1; step <= config.get<int>("steps", 1'000'000); ++step) {
      if (rank == 1 && step == config.get<int>("hang_at", 0)) hang();
      std::this_thread::sleep_for(work);
      optimizer.zero_grad();
      model(torch::ones({2, 4})).sum().backward();
      optimizer.step();
    }
  });
}
