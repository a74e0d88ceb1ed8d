#include "daemon/devices/node_inventory.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/devices/nvml.h"
#include "daemon/devices/slurm_grant.h"
#include "daemon/devices/visible_gpus.h"

namespace train {
namespace {

double cpu_quota() {  // cgroup v2, then v1; 0: none
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  double v1_quota = -1, v1_period = 0;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> v1_quota;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> v1_period;
  return v1_quota > 0 && v1_period > 0 ? v1_quota / v1_period : 0;
}

double cpu_count() {
  cpu_set_t set;
  double count = ::sched_getaffinity(0, sizeof set, &set) == 0
                     ? CPU_COUNT(&set)
                     : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  const double quota = cpu_quota();
  return quota > 0 ? std::min(count, std::max(1.0, std::floor(quota))) : count;
}

std::uint64_t memory_bytes() {
  std::uint64_t total_kib = 0;
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  meminfo >> key >> total_kib;
  std::uint64_t total = total_kib << 10;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::uint64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) total = std::min(total, limit);
  }
  return total;
}

/// Return the GPUs in the order of the PCI bus.
std::vector<InstalledGpu> installed_gpus() {
  std::vector<InstalledGpu> gpus;
  void* library = ::dlopen(kNvmlLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return gpus;
  const Nvml nvml(library);
  unsigned count = 0;
  if (nvml.complete() && nvml.init() == 0) {
    if (nvml.count(&count) != 0) count = 0;
    for (unsigned index = 0; index < count; ++index) {
      void* device = nullptr;
      char uuid[96] = {};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
      char name[96] = {};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
      NvmlPci pci;
      InstalledGpu& gpu = gpus.emplace_back();
      if (nvml.device(index, &device) != 0) continue;
      if (nvml.uuid(device, uuid, sizeof uuid - 1) == 0) gpu.uuid = uuid;
      if (nvml.name && nvml.name(device, name, sizeof name - 1) == 0) gpu.name = name;
      if (nvml.pci && nvml.pci(device, &pci) == 0)
        gpu.pci_bus.assign(pci.bus_id, ::strnlen(pci.bus_id, sizeof pci.bus_id));
    }
    nvml.shutdown();
  }
  ::dlclose(library);
  return gpus;
}

}  // namespace

NodeInventory read_node_inventory() {
  NodeInventory found;
  found.installed = installed_gpus();
  std::vector<std::string> uuids;
  for (const InstalledGpu& gpu : found.installed) uuids.push_back(gpu.uuid);
  found.gpus = visible_gpus(std::getenv("CUDA_VISIBLE_DEVICES"), uuids);
  found.amounts.cpu = cpu_count();
  found.amounts.gpu = static_cast<double>(found.gpus.size());
  found.amounts.memory_bytes = memory_bytes();
  limit_to_slurm_grant({.node = std::getenv("SLURMD_NODENAME"),
                        .cpus_on_node = std::getenv("SLURM_CPUS_ON_NODE"),
                        .mem_per_node = std::getenv("SLURM_MEM_PER_NODE"),
                        .mem_per_cpu = std::getenv("SLURM_MEM_PER_CPU")},
                       found.amounts);
  return found;
}

}  // namespace train
