// Under which address the workers of other nodes reach a node. Pure.
#pragma once

#include <string>
#include <vector>

namespace train {

/// `reached_at`: where this launcher reached its daemon (numeric, observed on the connection).
/// `offered`: the node's own addresses, best first. An observed address is preferred when the node
/// has it itself (behind a forwarded port it has not), and a loopback address is for nobody else.
std::string address_for_peers(const std::string& reached_at,
                              const std::vector<std::string>& offered);

}  // namespace train
