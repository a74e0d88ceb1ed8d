// This file resolves host names to addresses. Only lib/net includes it, since it exposes Asio's
// socket types.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <vector>

#include "lib/base/time.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"

namespace train {

using StreamAddress = asio::generic::stream_protocol::endpoint;

/// Return the addresses to connect to, never empty. Returns at the limit even if the system's
/// resolver hangs.
Task<std::vector<StreamAddress>> resolve(asio::any_io_executor executor, Endpoint endpoint,
                                         Duration limit);

/// Return the addresses to listen on, best first, never empty. May block if a name is not in
/// /etc/hosts.
Result<std::vector<StreamAddress>> resolve_to_listen(asio::any_io_executor executor,
                                                     const Endpoint& endpoint);

/// Convert an address to an Endpoint: "10.0.0.7:7070", "[fe80::1]:7070", or the path of a Unix
/// socket.
Endpoint to_endpoint(const StreamAddress& address);

}  // namespace train
