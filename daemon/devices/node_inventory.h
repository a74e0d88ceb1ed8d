// Finds the resources of this node: the cores and GPUs that this process may use, memory, and the
// addresses at which other nodes may reach it.
#pragma once

#include <string>
#include <vector>

#include "lib/model/resources.h"

namespace train {

struct InstalledGpu {
  std::string uuid = {};     // "" if it does not tell its own
  std::string name = {};     // "NVIDIA H100 80GB HBM3"
  std::string pci_bus = {};  // "00000000:3B:00.0"
};

struct NodeInventory {
  Resources amounts;
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them; amounts.gpu of them
  std::vector<InstalledGpu> installed = {};  // all of the node, by index
};

/// Read the cores from affinity and cgroup quota, the memory from the cgroup limit and
/// /proc/meminfo, both no more than Slurm has granted, and the GPUs from NVML (none if it cannot be
/// loaded). If our own environment has CUDA_VISIBLE_DEVICES, only those GPUs are ours.
NodeInventory read_node_inventory();

}  // namespace train
