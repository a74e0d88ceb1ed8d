// The addresses of this machine, or of the network namespace that we are in.
#pragma once

#include <string>
#include <vector>

namespace train {

/// Return the numeric addresses of the interfaces that are up, IPv4 first, loopback last.
std::vector<std::string> read_node_addresses();

}  // namespace train
