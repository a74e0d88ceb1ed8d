// The ports that supervisors hold for the workers of an attempt, and the addresses that they make.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "lib/base/result.h"

namespace train {

/// Return how many ports the spec's backend needs for each worker, beside the master port.
int ports_per_worker(const JobSpec& spec);

/// Check that the list of all ports of so many workers is short enough for one variable, which
/// Linux limits to 128 KiB, and for one frame.
Result<Unit> check_peers(const JobSpec& spec, int workers);

/// Return "host:port"; an IPv6 address gets brackets.
std::string host_and_port(const std::string& host, std::uint32_t port);

class PeerPorts {
 public:
  /// Record the ports of a node. Return false if they are not what was asked for.
  bool prepared(const PlacedNode& placed, const std::vector<std::uint32_t>& ports, int per_worker);
  /// Return "host:port" of every port, by rank. Precondition: all nodes are prepared.
  std::vector<std::string> peers(const Placement& placement,
                                 const std::function<std::string(NodeId node)>& host) const;

 private:
  std::map<NodeId, std::vector<std::uint32_t>> ports_;
};

}  // namespace train
