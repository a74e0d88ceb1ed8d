// Steps of plain arithmetic on one core, and, where EVERY is not 0, a checkpoint of MIB after each
// EVERY of them:
//
//   step_worker STEPS EVERY MIB FOLDER      writes the mean nanoseconds of a step to FOLDER/step
#include <train/train.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

double work(std::vector<double>& values) {
  double sum = 0;
  for (int round = 0; round < 20; ++round) {
    for (double& value : values) sum += value = value * 1.0000001 + 1e-9;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = std::atoi(argv[1]), every = std::atoi(argv[2]), mib = std::atoi(argv[3]);
  const std::string folder = argv[4];
  return train::run(argc, argv, [&] {
    std::vector<double> values(1 << 19, 1.0);
    const std::string bytes(std::size_t{1} << 20, 'x');
    double sum = work(values);
    std::chrono::nanoseconds spent{};
    for (int step = 1; step <= steps; ++step) {
      const auto begun = std::chrono::steady_clock::now();
      sum += work(values);
      spent += std::chrono::steady_clock::now() - begun;
      if (every == 0 || step % every != 0) continue;
      train::report({{"step", step}},
                    train::Checkpoint::from_writer([&](const std::filesystem::path& to) {
                      std::ofstream file(to / "state.bin", std::ios::binary);
                      for (int i = 0; i < mib; ++i)
                        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
                    }));
    }
    std::ofstream(folder + "/step") << spent.count() / steps << " " << sum << "\n";
  });
}
