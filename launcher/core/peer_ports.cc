#include "launcher/core/peer_ports.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {
namespace {
constexpr int kPeersMax = 4096;
}

int ports_per_worker(const JobSpec& spec) {
  switch (spec.backend) {
    case Backend::Torch:
    case Backend::None:
    case Backend::Mpi:
    case Backend::Torchft:
      return 0;
    case Backend::Tensorflow:
    case Backend::Jax:
    case Backend::Horovod:
      return 1;
    case Backend::Custom:
      return spec.backend_config.ports;
  }
  return 0;
}

Result<Unit> check_peers(const JobSpec& spec, int workers) {
  const int ports = ports_per_worker(spec);
  if (ports == 0 || workers <= kPeersMax / ports) return Unit{};
  return Error{
      Errc::InvalidSpec,
      fmt::format("backend {} tells each worker of all others: at most {} workers with {} {} each",
                  to_text(spec.backend), kPeersMax / ports, ports, ports == 1 ? "port" : "ports"),
      "use fewer workers, or backend: none"};
}

std::string host_and_port(const std::string& host, std::uint32_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool PeerPorts::prepared(const PlacedNode& placed, const std::vector<std::uint32_t>& ports,
                         int per_worker) {
  const auto asked = static_cast<std::size_t>(per_worker) *
                     static_cast<std::size_t>(std::max(placed.local_world_size, 0));
  const bool all_ports = std::all_of(ports.begin(), ports.end(),
                                     [](std::uint32_t port) { return port > 0 && port <= 65'535; });
  if (ports.size() != asked || !all_ports) return false;
  ports_[placed.node] = ports;
  return true;
}

std::vector<std::string> PeerPorts::peers(
    const Placement& placement, const std::function<std::string(NodeId node)>& host) const {
  std::vector<std::string> peers;
  for (const PlacedNode& placed : placement.nodes) {
    const auto found = ports_.find(placed.node);
    if (found == ports_.end() || found->second.empty()) continue;
    const std::string name = host(placed.node);
    for (const std::uint32_t port : found->second) peers.push_back(host_and_port(name, port));
  }
  return peers;
}

}  // namespace train
