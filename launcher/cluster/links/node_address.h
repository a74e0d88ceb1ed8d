// Chooses the address at which the workers on other nodes reach a node. Pure.
#pragma once

#include <string>
#include <vector>

namespace train {

/// Return a node's address for its peers. `reached_at`: where this launcher reached its daemon
/// (numeric, observed on the connection). `offered`: the node's own addresses, best first. The
/// observed address is preferred if it is one of the node's own (behind a forwarded port it is
/// not). A loopback address is useless to other nodes.
std::string address_for_peers(const std::string& reached_at,
                              const std::vector<std::string>& offered);

/// Return whether a node that we reach over loopback is on this machine: it has all addresses that
/// we have (`own`). One behind a tunnel (ssh -L) has others.
bool on_this_machine(const std::vector<std::string>& own, const std::vector<std::string>& offered);

/// Return whether a node is on this machine: it has an address that we have (`own`), other than one
/// of loopback. Machines have their own, but they may come and go. Bridges of containers have the
/// same on each machine, so compare the names of the machines, too.
bool shares_address(const std::vector<std::string>& own, const std::vector<std::string>& offered);

}  // namespace train
