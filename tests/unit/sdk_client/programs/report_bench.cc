// Measures the cost of report() calls in a loop, back to back: median, p99 and rate. It starts
// itself again under a fake supervisor.
#include <sys/wait.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/unit/sdk_client/fake_supervisor.h"

namespace {

int under_a_supervisor(char** argv) {
  train::Welcome welcome;
  welcome.ranks.world_size = welcome.ranks.local_world_size = welcome.ranks.node_count = 1;
  train::FakeSupervisor supervisor(welcome);
  ::setenv("TRAINRUN_SOCKET", supervisor.socket().c_str(), 1);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execv("/proc/self/exe", argv);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("TRAINRUN_SOCKET") == nullptr) return under_a_supervisor(argv);
  return train::run(argc, argv, [] {
    using Clock = std::chrono::steady_clock;
    constexpr int kReports = 200'000;
    std::vector<double> micros(kReports);
    const auto begin = Clock::now();
    for (int step = 0; step < kReports; ++step) {
      const auto before = Clock::now();
      train::report({{"step", step}, {"loss", 0.5}, {"accuracy", 0.9}, {"lr", 1e-3}});
      micros[static_cast<std::size_t>(step)] =
          std::chrono::duration<double, std::micro>(Clock::now() - before).count();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::sort(micros.begin(), micros.end());
    std::printf("report(): median %.2f us, p99 %.2f us, max %.0f us, %.0f reports/s\n",
                micros[kReports / 2], micros[std::size_t{kReports} / 100 * 99], micros.back(),
                kReports / seconds);
  });
}
