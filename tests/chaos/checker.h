// What must hold once a run has ended, whatever happened to it: judged by what it left, not by what
// it says of itself.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/world.h"

namespace train::chaos {

struct Findings {
  std::vector<std::string> breaks;     // of what was promised
  std::vector<std::string> leftovers;  // of what should be gone
  int attempts = 0;
  std::int64_t repeated_steps = 0;  // of rank 0
};

/// Result, report log, restores and checkpoints of an ended run.
void check_results(World& world, Findings& findings);
/// Processes, cgroups, sockets and spools of an ended run; traind still runs.
void check_leftovers(World& world, Findings& findings);

}  // namespace train::chaos
