// What this node has: cores this process may use, memory, GPUs (NVML, where the driver is there),
// and addresses at which other nodes may reach it.
#pragma once

#include <string>
#include <vector>

#include "lib/model/resources.h"

namespace train {

/// Cores by affinity and cgroup quota, memory by cgroup limit and /proc/meminfo, GPUs by NVML (0
/// where it cannot be loaded).
Resources read_node_resources();

/// Numeric addresses of the interfaces that are up, IPv4 first, loopback last.
std::vector<std::string> read_node_addresses();

}  // namespace train
