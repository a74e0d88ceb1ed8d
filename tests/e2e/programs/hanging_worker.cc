// Trains in steps that end with a barrier, until rank 1 hangs in one of several ways: `how` and
// `at_step` in train_loop_config, only in attempt 0 with `once`. `path`: what `read` reads and
// `write` writes, in a phase of its own.
#include <fcntl.h>
#include <train/train.h>
#include <unistd.h>

#include <mutex>
#include <thread>

namespace {

using namespace std::chrono_literals;

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(1h);
}

// Not inlined: tests look for its name in stacks and profiles.
[[gnu::noinline]] void hang(const std::string& how, const train::Config& config) {
  if (how == "mutex") {
    static std::mutex mutex;
    std::thread([] {
      mutex.lock();
      sleep_for_ever();
    }).detach();
    std::this_thread::sleep_for(100ms);
    mutex.lock();
  } else if (how == "loop") {
    volatile unsigned turns = 0;
    for (;;) turns = turns + 1;
  } else if (how == "read") {
    const int fd = ::open(config.get<std::string>("path").c_str(), O_RDONLY);
    char byte = 0;
    while (::read(fd, &byte, 1) <= 0) {
    }
  } else if (how == "write") {
    const auto phase = train::phase("save");
    const int fd = ::open(config.get<std::string>("path").c_str(), O_WRONLY);
    (void)!::write(fd, "x", 1);
    ::close(fd);
  } else if (how == "phase") {
    const auto phase = train::phase("download");
    phase.say("3 of 9 GiB");
    sleep_for_ever();
  } else if (how == "slow") {
    std::this_thread::sleep_for(std::chrono::milliseconds(config.get<int>("slow_ms")));
  } else if (how == "slow phase") {
    const auto phase = train::phase("download", {.limit = 1h});
    std::this_thread::sleep_for(std::chrono::milliseconds(config.get<int>("slow_ms")));
  }
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const train::Context& context = train::get_context();
    const bool hangs = !config.get<bool>("once", false) || context.attempt() == 0;
    for (int step = 0; step < config.get<int>("steps", 1'000'000); ++step) {
      if (hangs && context.world_rank() == 1 && step == config.get<int>("at_step", 3))
        hang(config.get<std::string>("how", ""), config);
      train::barrier();
      train::report({{"step", step}});
      std::this_thread::sleep_for(5ms);
    }
  });
}
