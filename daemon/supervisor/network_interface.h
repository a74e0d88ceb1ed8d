// Which network interface of this node carries an address.
#pragma once

#include <string>

namespace train {

/// "eth0" for its address; "" for one that no interface here has.
std::string interface_of(const std::string& numeric_address);

}  // namespace train
