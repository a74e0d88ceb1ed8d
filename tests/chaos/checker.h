// Checks what must hold once a run has ended, whatever happened to it. The checker looks at what
// the run left behind, not at what the run says of itself.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/world.h"

namespace train::chaos {

struct Findings {
  std::vector<std::string> breaks;     // violated guarantees
  std::vector<std::string> leftovers;  // things that should be gone
  int attempts = 0;
  std::int64_t repeated_steps = 0;  // by rank 0
};

/// Check the result, report log, restores and checkpoints of an ended run.
void check_results(World& world, Findings& findings);
/// Check for processes, cgroups, sockets and spools that an ended run left; traind still runs.
void check_leftovers(World& world, Findings& findings);

}  // namespace train::chaos
