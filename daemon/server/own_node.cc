#include "daemon/server/own_node.h"

#include <sys/utsname.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/devices/node_inventory.h"
#include "daemon/devices/node_labels.h"
#include "daemon/devices/topology_reader.h"
#include "daemon/devices/visible_gpus.h"
#include "lib/base/host.h"

namespace train {
namespace {

void replace_amounts(const std::map<std::string, double>& named, Resources& amounts) {
  for (const auto& [name, value] : named) {
    if (name == "CPU")
      amounts.cpu = value;
    else if (name == "GPU")
      amounts.gpu = value;
    else if (name == "memory")
      amounts.memory_bytes = static_cast<std::uint64_t>(value);
    else
      amounts.custom[name] = value;
  }
}

}  // namespace

Result<OwnNode> read_own_node(const DaemonOptions& options) {
  NodeInventory found = read_node_inventory();
  std::vector<std::string> uuids;
  for (const InstalledGpu& gpu : found.installed) uuids.push_back(gpu.uuid);
  if (!options.gpus.empty()) {
    TRY(found.gpus, listed_gpus(options.gpus, found.gpus, uuids));
    found.amounts.gpu = static_cast<double>(found.gpus.size());
  }
  replace_amounts(options.resources, found.amounts);
  OwnNode node{std::move(found.amounts), std::move(found.gpus), {}};
  std::vector<std::string> names;
  for (std::size_t index = 0; index < found.installed.size(); ++index) {
    const std::string name = std::to_string(index);
    const InstalledGpu& gpu = found.installed[index];
    if (std::find(node.gpus.begin(), node.gpus.end(), name) == node.gpus.end()) continue;
    node.traits.gpus[name] = {gpu.uuid, numa_node_of_device(gpu.pci_bus)};
    names.push_back(gpu.name);
  }
  utsname machine{};
  ::uname(&machine);
  node.traits.labels = own_labels(host_name(), machine.machine, names);
  TRY_VOID(add_labels(node.traits.labels, options.labels));
  node.traits.topology = read_cpu_topology();
  node.traits.allowed = allowed_cpus();
  return node;
}

}  // namespace train
