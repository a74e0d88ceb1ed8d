// One complete simulated run: the launcher, the nodes, the faults of its plan, and the checkers.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/run_state.h"
#include "tests/sim/faults.h"
#include "tests/sim/mutants.h"

namespace train::sim {

struct SimOptions {
  std::uint64_t seed = 1;
  int nodes = 3;  // 0: by the seed
  Mutant mutant = Mutant::None;
  bool print = false;
  int ranks_per_node = 0;         // 0: by the seed
  Duration lasts{};               // 0: by the seed
  bool wall_clocks = false;       // S14: run it again with other wall clocks, and compare
  std::optional<Plan> plan = {};  // in place of the seed's
};
struct SimResult {
  std::string violation;  // empty: none
  std::string trace_tail;
  std::uint64_t trace_hash = 0, events = 0;
  RunState outcome{};
  int attempts = 0, nodes = 0;
  int world_size = 0, from_standby = 0;  // workers of the last attempt
  int groups_that_hung = 0;
  int rosters_compared = 0;  // L8
  Duration virtual_time{};
  std::uint32_t sites_fired = 0;                          // one bit each, see Site
  std::string describe(const SimOptions& options) const;  // the command that shows it again
};

SimResult simulate(const SimOptions& options);

}  // namespace train::sim
