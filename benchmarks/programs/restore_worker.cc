// Ranks that share a state and restore it: restore_worker MIB FOLDER [cold]. MIB is the size of all
// ranks together.
//
// Without a checkpoint to begin from, they make one. With one, each rank writes three lines to
// FOLDER/restore-RANK.txt, of nanoseconds and of its threads' nanoseconds on a processor: reading
// the files of its state into memory that is in use; get_checkpoint() and load(); and reading the
// files again. cold: the files are dropped from the page cache before each.
#include <fcntl.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <train/torch.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/programs/events.h"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTensors = 8;
constexpr std::size_t kPieceBytes = 1 << 20;

struct Took {
  long long wall_ns = 0, cpu_ns = 0;
  friend std::ostream& operator<<(std::ostream& out, const Took& took) {
    return out << took.wall_ns << ' ' << took.cpu_ns << '\n';
  }
};

long long process_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int opened(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("cannot open " + path.string());
  return fd;
}

void drop_from_cache(const fs::path& path) {
  const int fd = opened(path);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

/// Return memory in use, aligned like tensors or better: copies to other addresses take up to four
/// times as long.
char* aligned_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to read into");
  std::memset(memory, 'x', bytes);
  return static_cast<char*>(memory);
}

/// Read as `cat FILES` would, but into `memory`.
void read_plainly(const std::vector<fs::path>& files, char* memory, std::size_t bytes) {
  std::size_t at = 0;
  for (const fs::path& path : files) {
    const int fd = opened(path);
    ssize_t got = 0;
    while ((got = ::read(fd, memory + at, std::min(kPieceBytes, bytes - at))) > 0)
      at += static_cast<std::size_t>(got);
    ::close(fd);
  }
}

/// Return the files of the ranks that held what this rank holds now.
std::vector<fs::path> files_of_this_rank(const fs::path& checkpoint, std::uint64_t* bytes) {
  const int writers = train::restored_world_size();
  const int readers = train::get_context().world_size();
  const int rank = train::get_context().world_rank();
  std::vector<fs::path> files;
  *bytes = 0;
  for (int writer = 0; writer < writers; ++writer) {
    const bool mine =
        (writer + 1) * readers > rank * writers && writer * readers < (rank + 1) * writers;
    if (!mine) continue;
    char name[64];
    std::snprintf(name, sizeof name, "rank-%04d/sharded.safetensors", writer);
    files.push_back(checkpoint / name);
    *bytes += fs::file_size(files.back());
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t mib = argc > 1 ? std::atoll(argv[1]) : 512;
  const std::string folder = argc > 2 ? argv[2] : ".";
  const bool cold = argc > 3;
  return train::run(argc, argv, [&](const train::Config& config) {
    const auto committed = config.get<std::string>("committed", "");
    const std::int64_t rows = mib * 1024 / kTensors;  // of 1 KiB
    train::ShardedState state;
    std::vector<torch::Tensor> tensors;
    for (std::int64_t i = 0; i < kTensors; ++i) {
      const double value = committed.empty() ? static_cast<double>(i) : -1.0;
      tensors.push_back(torch::full({train::even_share(rows).size(), 256}, value));
      state.split("t" + std::to_string(i), tensors.back(), 0, rows);
    }
    if (committed.empty()) {
      train::report({{"epoch", 0}}, train::Checkpoint::from_state(state),
                    {.upload = train::Upload::Sync});
      return;
    }
    std::uint64_t bytes = 0;
    const std::vector<fs::path> files = files_of_this_rank(committed, &bytes);
    char* const memory = aligned_memory(bytes);
    const auto timed = [&](auto&& work) {
      train::barrier();
      if (cold) {
        for (const fs::path& file : files) drop_from_cache(file);
        train::barrier();
      }
      const long long cpu = process_cpu_ns(), begin = bench::monotonic_ns();
      work();
      return Took{bench::monotonic_ns() - begin, process_cpu_ns() - cpu};
    };
    const Took before = timed([&] { read_plainly(files, memory, bytes); });
    const Took restored = timed([&] { train::get_checkpoint()->load(state); });
    const Took after = timed([&] { read_plainly(files, memory, bytes); });
    for (std::int64_t i = 0; i < kTensors; ++i) {
      if (!tensors[static_cast<std::size_t>(i)].eq(static_cast<double>(i)).all().item<bool>())
        throw std::runtime_error("tensor " + std::to_string(i) + " came back as another one");
    }
    std::ofstream(folder + "/restore-" + std::to_string(train::get_context().world_rank()) + ".txt")
        << before << restored << after;
  });
}
