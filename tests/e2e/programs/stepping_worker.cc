// Trains in steps of `step_ms` that end with a barrier, and hands over a checkpoint after each
// `checkpoint_every` of them. Steps of `slow_rank` take `slow_ms` longer until step `slow_until`.
// In attempt 0, rank 1 dies before step `die_at`.
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

using std::chrono::milliseconds;

train::Checkpoint checkpoint_of(int step) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("steps-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "step") << step;
  return train::Checkpoint::from_directory(folder);
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const train::Context& context = train::get_context();
    const int every = config.get<int>("checkpoint_every", 0);
    const bool slow = context.world_rank() == config.get<int>("slow_rank", -1);
    for (int step = 1; step <= config.get<int>("steps", 1'000'000); ++step) {
      const bool dies = context.attempt() == 0 && context.world_rank() == 1;
      if (dies && step == config.get<int>("die_at", 0)) ::raise(SIGKILL);
      milliseconds work(config.get<int>("step_ms", 20));
      if (slow && step < config.get<int>("slow_until", 1'000'000))
        work += milliseconds(config.get<int>("slow_ms", 0));
      std::this_thread::sleep_for(work);
      train::barrier();
      if (every > 0 && step % every == 0)
        train::report({{"step", step}}, checkpoint_of(step));
      else
        train::report({{"step", step}});
    }
  });
}
