// The CPUs of a node and how they lie: cores, sockets, NUMA nodes, core complexes.
#pragma once

#include <vector>

namespace train {

/// One CPU that is online. Two CPUs of a core are its hardware threads (SMT).
struct CpuPlace {
  int cpu = 0;
  int core = 0;     // a number that no other core of the machine has
  int socket = 0;   // likewise
  int node = 0;     // NUMA
  int complex = 0;  // the cores that share a last-level cache; a number of its own
  bool operator==(const CpuPlace&) const = default;
};

struct CpuTopology {
  std::vector<CpuPlace> cpus = {};  // by number
  bool operator==(const CpuTopology&) const = default;
};

}  // namespace train
