// Reads how this node's CPUs lie, from sysfs.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/cpu_list.h"
#include "lib/model/cpu_topology.h"

namespace train {

/// Return the CPUs that are online. A machine that does not tell its caches, sockets or NUMA nodes
/// has one of each. Empty: it tells nothing. `sys` is "/sys" but in tests.
CpuTopology read_cpu_topology(const std::string& sys = "/sys");

/// Return the CPUs that this process may use, as its parents and its cgroup allow.
CpuSet allowed_cpus();

/// Return the NUMA node of a PCI device such as "00000000:3B:00.0", NVML's way to write it; −1: not
/// known.
int numa_node_of_device(std::string_view pci_bus_id, const std::string& sys = "/sys");

}  // namespace train
