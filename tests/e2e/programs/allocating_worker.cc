// Trains in steps of some milliseconds, each of which needs memory for a moment. Once the file
// `leak_at` of train_loop_config is there, it also keeps 64 MiB.
#include <train/train.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMiB = 1u << 20;

void* volatile last = nullptr;  // what is allocated is not optimised away

// Not inlined: tests look for their names in profiles.
[[gnu::noinline]] void leak_in_pieces() {
  for (int piece = 0; piece < 16; ++piece) last = std::malloc(4 * kMiB);
}
[[gnu::noinline]] void need_for_a_moment() {
  void* const memory = std::malloc(4 * kMiB);
  last = memory;
  std::free(memory);
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const std::filesystem::path leak_at = config.get<std::string>("leak_at");
    bool leaked = false;
    for (int step = 0; step < 1'000'000; ++step) {
      need_for_a_moment();
      if (!leaked && std::filesystem::exists(leak_at)) {
        leak_in_pieces();
        leaked = true;
      }
      train::report({{"step", step}});
      std::this_thread::sleep_for(5ms);
    }
  });
}
