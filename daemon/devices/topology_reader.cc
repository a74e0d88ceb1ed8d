#include "daemon/devices/topology_reader.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "lib/base/text_file.h"

namespace train {
namespace {

std::optional<int> read_number(const std::string& path) {
  const std::string text = read_text(path);
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} ? std::optional(number) : std::nullopt;
}

CpuSet read_list(const std::string& path) {
  return parse_cpu_list(read_text(path)).value_or(CpuSet{});
}

/// Return the CPUs that share a core's largest cache.
CpuSet last_level_cache(const std::string& cpu) {
  constexpr int kCachesMax = 16;
  int level = 0;
  CpuSet sharers;
  for (int index = 0; index < kCachesMax; ++index) {
    const std::string cache = fmt::format("{}/cache/index{}", cpu, index);
    const auto here = read_number(cache + "/level");
    if (!here) break;
    if (*here <= level) continue;
    level = *here;
    sharers = read_list(cache + "/shared_cpu_list");
  }
  return sharers;
}

int first_of(const CpuSet& cpus, int otherwise) { return cpus.empty() ? otherwise : *cpus.begin(); }

}  // namespace

// A core, a socket and a cache are named after their first CPU: their own numbers need not be
// unique on the machine.
CpuTopology read_cpu_topology(const std::string& sys) {
  CpuTopology topology;
  const std::string root = sys + "/devices/system";
  std::map<int, int> node_of;
  for (const int node : read_list(root + "/node/online"))
    for (const int cpu : read_list(fmt::format("{}/node/node{}/cpulist", root, node)))
      node_of[cpu] = node;
  for (const int number : read_list(root + "/cpu/online")) {
    const std::string cpu = fmt::format("{}/cpu/cpu{}", root, number);
    const auto node = node_of.find(number);
    CpuPlace place{.cpu = number,
                   .core = first_of(read_list(cpu + "/topology/thread_siblings_list"), number),
                   .socket = first_of(read_list(cpu + "/topology/core_siblings_list"), 0),
                   .node = node == node_of.end() ? 0 : node->second};
    // Without a cache that is told, a NUMA node counts as one; below all real numbers.
    place.complex = first_of(last_level_cache(cpu), -1 - place.node);
    topology.cpus.push_back(place);
  }
  return topology;
}

CpuSet allowed_cpus() {
  CpuSet allowed;
  cpu_set_t* mask = CPU_ALLOC(kCpusMax);
  if (mask == nullptr) return allowed;
  const std::size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(bytes, mask);
  if (::sched_getaffinity(0, bytes, mask) == 0)
    for (int cpu = 0; cpu < kCpusMax; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask)) allowed.insert(cpu);
  CPU_FREE(mask);
  return allowed;
}

int numa_node_of_device(std::string_view pci_bus_id, const std::string& sys) {
  // NVML writes eight digits for the domain, sysfs four.
  if (pci_bus_id.size() == 16 && pci_bus_id.starts_with("0000")) pci_bus_id.remove_prefix(4);
  std::string name;
  for (const char c : pci_bus_id)
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name.empty() || name.find_first_not_of("0123456789abcdef:.") != name.npos) return -1;
  return read_number(fmt::format("{}/bus/pci/devices/{}/numa_node", sys, name)).value_or(-1);
}

}  // namespace train
