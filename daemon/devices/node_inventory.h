// Finds the resources of this node: the cores that this process may use, memory, GPUs (through
// NVML, if the driver is installed), and the addresses at which other nodes may reach it.
#pragma once

#include <string>
#include <vector>

#include "lib/model/resources.h"

namespace train {

/// Read the cores from affinity and cgroup quota, the memory from the cgroup limit and
/// /proc/meminfo, and the GPUs from NVML (0 if it cannot be loaded).
Resources read_node_resources();

/// Return the numeric addresses of the interfaces that are up, IPv4 first, loopback last.
std::vector<std::string> read_node_addresses();

}  // namespace train
