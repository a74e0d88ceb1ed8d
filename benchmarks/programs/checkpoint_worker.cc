// One of the ranks that repeatedly hand over a state: checkpoint_worker MIB COUNT FOLDER. Writes a
// line of nanoseconds per checkpoint to FOLDER/checkpoints-RANK.txt: how long report() held the
// loop, a memcpy of the same bytes between buffers in use, and the time from the call until the
// commit of the checkpoint.
#include <torch/torch.h>
#include <train/torch.h>
#include <train/train.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "benchmarks/programs/events.h"

namespace {

constexpr std::int64_t kTensors = 8;
constexpr auto kLookEvery = std::chrono::milliseconds(1);

std::string manifest_of(int number) {
  char name[64];
  std::snprintf(name, sizeof name, "/checkpoints/checkpoint_%06d/.manifest.json", number);
  return train::get_context().storage_path() + name;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t mib = argc > 1 ? std::atoll(argv[1]) : 256;
  const int count = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::string folder = argc > 3 ? argv[3] : ".";
  return train::run(argc, argv, [&] {
    const auto& context = train::get_context();
    const std::int64_t rows = mib * 1024 / kTensors * context.world_size();  // of 1 KiB
    train::ShardedState state;
    std::vector<torch::Tensor> tensors;
    for (std::int64_t i = 0; i < kTensors; ++i) {
      tensors.push_back(torch::rand({train::even_share(rows).size(), 256}));
      state.split("t" + std::to_string(i), tensors.back(), 0, rows);
    }
    const std::size_t bytes = tensors.front().nbytes();
    std::string buffer(bytes * kTensors, 'x');
    std::ofstream out(folder + "/checkpoints-" + std::to_string(context.world_rank()) + ".txt");
    for (int number = 1; number <= count; ++number) {
      for (torch::Tensor& tensor : tensors) tensor.add_(1e-3);
      train::barrier();
      const long long copied = bench::monotonic_ns();
      for (std::int64_t i = 0; i < kTensors; ++i)
        std::memcpy(buffer.data() + static_cast<std::size_t>(i) * bytes,
                    tensors[static_cast<std::size_t>(i)].data_ptr(), bytes);
      const long long begin = bench::monotonic_ns();
      train::report({{"number", number}}, train::Checkpoint::from_state(state));
      const long long end = bench::monotonic_ns();
      while (!std::filesystem::exists(manifest_of(number))) std::this_thread::sleep_for(kLookEvery);
      out << end - begin << ' ' << begin - copied << ' ' << bench::monotonic_ns() - begin << '\n';
    }
  });
}
