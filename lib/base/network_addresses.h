// The addresses of this machine, or of the network namespace that we are in.
#pragma once

#include <string>
#include <vector>

namespace train {

/// Return the numeric addresses of the interfaces that are up, IPv4 first, loopback last.
std::vector<std::string> read_node_addresses();

/// Return our own address on the way to a numeric address, as the routing table has it. Sends
/// nothing. "" if there is no way, or if `peer` is no numeric address.
std::string own_address_towards(const std::string& peer);

}  // namespace train
