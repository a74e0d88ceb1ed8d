// A worker that crashes in the way that train_loop_config.how names, in functions whose names and
// lines a test looks for; with "call", it does not. train_loop_config.rank crashes; -1: all do. It
// is compiled with debug information and without optimisation.
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <train/train.h>
#include <unistd.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/e2e/programs/file_wait.h"

namespace {

volatile int zero = 0;

struct Layer {
  int* weights = nullptr;
  int forward(int x) const { return weights[x]; }  // crash: pointer
};

struct Model {
  Layer layer;
  int forward(int x) const { return layer.forward(x) + 1; }
};

int recurse(int depth) {
  volatile char room[4096] = {};
  room[0] = static_cast<char>(depth);
  if (depth < zero) return 0;           // never, which the compiler does not know
  return recurse(depth + 1) + room[0];  // crash: overflow
}

void check(int value) {
  if (value != 1) std::abort();  // crash: abort
}

int divide(int by) { return 7 / by; }  // crash: divide

int answer(int x) { return x + 1; }  // where a debugger stops

void throw_in_thread() { throw std::out_of_range("row 7 of 5"); }

void own_handler(int) {
  constexpr char kText[] = "own handler\n";
  (void)!::write(STDOUT_FILENO, kText, sizeof kText - 1);
  ::_exit(5);
}

/// A child without the SDK's session crashes; its parent does not.
void crash_in_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    Model().forward(0);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("child killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  std::fflush(stdout);
  ::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]) == "--own-handler") ::signal(SIGSEGV, own_handler);
  return train::run(argc, argv, [](const train::Config& config) {
    const auto how = config.get<std::string>("how");
    if (how == "call") return answer(41) - 42;
    if (config.get<int>("rank", 0) >= 0 &&
        train::get_context().world_rank() != config.get<int>("rank", 0)) {
      while (!train::should_stop()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return 0;
    }
    if (how == "pointer") return Model().forward(zero);
    if (how == "thread") std::thread([] { Model().forward(zero); }).join();
    if (how == "overflow") return recurse(0);
    if (how == "abort") check(zero);
    if (how == "divide") return divide(zero);
    if (how == "throw") std::thread(throw_in_thread).join();
    if (how == "child") crash_in_child();
    if (how == "kill") ::raise(SIGKILL);
    return 0;
  });
}
