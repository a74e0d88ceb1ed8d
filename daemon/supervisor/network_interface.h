// Finds the network interface of this node that carries an address.
#pragma once

#include <string>

namespace train {

/// Return the interface that has the address, such as "eth0", or "" if no interface here has it.
std::string interface_of(const std::string& numeric_address);

}  // namespace train
