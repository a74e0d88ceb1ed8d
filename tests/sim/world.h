// One whole simulated run: the launcher, the nodes, the faults of its plan, and the checkers that
// watch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/sim/launcher.h"

namespace train::sim {

struct SimOptions {
  std::uint64_t seed = 1;
  int nodes = 3;
  Mutant mutant = Mutant::None;
  bool print = false;
};
struct SimResult {
  std::string violation;  // empty: none
  std::string trace_tail;
  std::uint64_t trace_hash = 0, events = 0;
  RunState outcome{};
  int attempts = 0;
  std::string describe(const SimOptions& options) const;  // what to run to see it again
};

SimResult simulate(const SimOptions& options);

}  // namespace train::sim
