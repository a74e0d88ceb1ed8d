// Finds the resources of this node: the cores and GPUs that this process may use, memory, and the
// addresses at which other nodes may reach it.
#pragma once

#include <string>
#include <vector>

#include "lib/model/resources.h"

namespace train {

struct NodeInventory {
  Resources amounts;
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them; amounts.gpu of them
};

/// Read the cores from affinity and cgroup quota, the memory from the cgroup limit and
/// /proc/meminfo, both no more than Slurm has granted, and the GPUs from NVML (none if it cannot be
/// loaded). If our own environment has CUDA_VISIBLE_DEVICES, only those GPUs are ours.
NodeInventory read_node_inventory();

}  // namespace train
