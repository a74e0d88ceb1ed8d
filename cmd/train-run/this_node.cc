#include "cmd/train-run/this_node.h"

#include <sys/utsname.h>

#include <charconv>
#include <string>
#include <vector>

#include "daemon/devices/node_inventory.h"
#include "daemon/devices/node_labels.h"
#include "lib/base/host.h"

namespace train {

NodeCapacity this_node() {
  const NodeInventory found = read_node_inventory();
  NodeCapacity here{NodeId{0}, host_name(), found.amounts, found.amounts};
  std::vector<std::string> names;
  for (const std::string& gpu : found.gpus) {
    std::size_t index = 0;
    const auto [end, failed] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), index);
    const bool known = failed == std::errc{} && index < found.installed.size();
    here.gpus.push_back({gpu, known ? found.installed[index].uuid : "", true});
    if (known) names.push_back(found.installed[index].name);
  }
  utsname machine{};
  ::uname(&machine);
  here.labels = own_labels(here.name, machine.machine, names);
  return here;
}

}  // namespace train
