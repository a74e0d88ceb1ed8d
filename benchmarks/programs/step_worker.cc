// Does steps of plain arithmetic on one core and, unless EVERY is 0, hands over MIB of state after
// each EVERY of them:
//
//   step_worker STEPS EVERY MIB FOLDER [plain]
//
// as a checkpoint or, with `plain`, as the file FOLDER/ready/K, which another process (s3_upload
// follow) takes away; then, too, at most two are in flight. FOLDER/step has the mean nanoseconds of
// a step, and the nanoseconds of processor time that the supervisor has used.
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr std::ptrdiff_t kUnderWayMax = 2;  // as in the SDK

double work(std::vector<double>& values) {
  double sum = 0;
  for (int round = 0; round < 20; ++round) {
    for (double& value : values) sum += value = value * 1.0000001 + 1e-9;
  }
  return sum;
}

void write_state(const fs::path& path, int mib) {
  const std::string bytes(std::size_t{1} << 20, 'x');
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < mib; ++i)
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Write on a thread, as the SDK writes a checkpoint.
std::thread put_plainly(const fs::path& folder, int number, int mib) {
  const fs::path ready = folder / "ready";
  while (std::distance(fs::directory_iterator(ready), fs::directory_iterator()) >= kUnderWayMax)
    std::this_thread::sleep_for(kLookEvery);
  return std::thread([=] {
    const std::string name = std::to_string(number);
    write_state(folder / name, mib);
    fs::rename(folder / name, ready / name);
  });
}

/// Return the user and system time of the parent, from /proc.
long long supervisor_ns() {
  std::ifstream file("/proc/" + std::to_string(::getppid()) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  long long user = 0, system = 0;
  const std::string behind_name = text.substr(text.rfind(')') + 2);
  if (std::sscanf(behind_name.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld",
                  &user, &system) != 2)
    return 0;
  return (user + system) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = std::atoi(argv[1]), every = std::atoi(argv[2]), mib = std::atoi(argv[3]);
  const std::string folder = argv[4];
  const bool plain = argc > 5;
  return train::run(argc, argv, [&] {
    std::vector<double> values(1 << 19, 1.0);
    double sum = work(values);
    std::vector<std::thread> writing;
    std::chrono::nanoseconds spent{};
    for (int step = 1; step <= steps; ++step) {
      const auto begun = std::chrono::steady_clock::now();
      sum += work(values);
      spent += std::chrono::steady_clock::now() - begun;
      if (every == 0 || step % every != 0) continue;
      if (plain) {
        train::report({{"step", step}});
        writing.push_back(put_plainly(folder, step / every, mib));
        continue;
      }
      train::report({{"step", step}}, train::Checkpoint::from_writer([mib](const fs::path& to) {
                      write_state(to / "state.bin", mib);
                    }));
    }
    std::ofstream(folder + "/step")
        << spent.count() / steps << " " << supervisor_ns() << " " << sum << "\n";
    for (std::thread& each : writing) each.join();
  });
}
