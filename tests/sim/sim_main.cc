// train-sim: simulate runs by their seeds. A failing seed is printed with what to type to see it
// again.
//   train-sim --seed 1 --seeds 1000 --nodes 3
//   train-sim --seed 42 --nodes 3 --trace
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/world.h"

namespace {

int usage() {
  std::fputs("usage: train-sim [--seed N] [--seeds K] [--nodes M] [--mutant NAME] [--trace]\n",
             stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace train::sim;
  SimOptions options;
  std::uint64_t seeds = 1;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--trace")) {
      options.print = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[i + 1];
    if (is("--seed"))
      options.seed = std::strtoull(value, nullptr, 10);
    else if (is("--seeds"))
      seeds = std::strtoull(value, nullptr, 10);
    else if (is("--nodes"))
      options.nodes = std::atoi(value);
    else if (is("--mutant")) {
      for (int m = 0; m <= static_cast<int>(Mutant::RestoresOldCheckpoint); ++m) {
        if (to_string(static_cast<Mutant>(m)) == value) options.mutant = static_cast<Mutant>(m);
      }
    } else
      return usage();
    ++i;
  }
  int failed = 0;
  std::uint64_t events = 0;
  const std::uint64_t first = options.seed;
  for (; options.seed < first + seeds; ++options.seed) {
    const SimResult result = simulate(options);
    events += result.events;
    if (result.violation.empty()) {
      if (seeds == 1)
        std::printf("seed %llu: %s, %d attempts, %llu events, trace %016llx\n",
                    static_cast<unsigned long long>(options.seed),
                    std::string(train::to_string(result.outcome)).c_str(), result.attempts,
                    static_cast<unsigned long long>(result.events),
                    static_cast<unsigned long long>(result.trace_hash));
      continue;
    }
    ++failed;
    if (seeds == 1)
      std::printf("%s", result.describe(options).c_str());
    else
      std::printf("train-sim --seed %llu --nodes %d: %s\n",
                  static_cast<unsigned long long>(options.seed), options.nodes,
                  result.violation.c_str());
  }
  std::printf("%llu seeds, %d failed, %llu events\n", static_cast<unsigned long long>(seeds),
              failed, static_cast<unsigned long long>(events));
  return failed == 0 ? 0 : 1;
}
