// Finds the address of this machine at which the other ranks can reach it. process_group.cc calls
// it before Gloo binds its sockets. It ignores host names: what counts is the route that a
// connection to the master really takes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::sdk {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool up = false;
  bool loopback = false;
  bool operator==(const InterfaceAddress&) const = default;
};

/// Connect to the master's port as soon as something listens there, trying again every few
/// milliseconds until `timeout`, and return the numeric local address of the connection. (c10d's
/// own client waits a whole second after each refusal.)
Result<std::string> address_towards(const std::string& host, int port,
                                    std::chrono::milliseconds timeout);

/// Return `towards_master`, unless it is a loopback address and there is more than one node (the
/// master's own host name may resolve to 127.0.1.1, as Debian's installer sets it up). In that case
/// return the first other address that is up, IPv4 before IPv6.
Result<std::string> address_for_peers(const std::string& towards_master, int node_count,
                                      const std::vector<InterfaceAddress>& interfaces);

/// Read the addresses of this machine's interfaces.
Result<std::vector<InterfaceAddress>> list_interface_addresses();

}  // namespace train::sdk
