// Reads where a run's nodes are found: the hosts file, or the addresses of a name. A file on
// storage that hangs and a resolver that does not answer block, so callers that may not block use a
// thread of their own (lib/net/blocking.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

using NodeNames = std::vector<std::string>;  // as cluster.nodes has them

/// Return "the hosts file '/shared/hosts'" or "the name mnist".
std::string describe_node_source(const ClusterConfig& cluster);

/// Read cluster.hosts_file, or look up cluster.dns. Unavailable: the name has no address, or the
/// file names nobody, which may change. Other errors are of the file: NotFound, InvalidArgument
/// (too large, or a word is no host), Permission and so on. Blocks.
Result<NodeNames> read_node_source(const ClusterConfig& cluster);

/// Read it for a start: wait until it names somebody, for `limit` at most, even if the resolver
/// hangs. `say` is called for what takes long; without one, the first answer counts. Blocks.
Result<NodeNames> wait_for_node_source(const ClusterConfig& cluster, Duration limit,
                                       const std::function<void(const std::string&)>& say = {});

/// Return the cluster with its nodes, read within `limit`, if it finds them.
Result<ClusterConfig> with_found_nodes(ClusterConfig cluster, Duration limit);

/// Return the place of this machine among nodes HOST:PORT (place_of_this_machine()). NotFound if it
/// is none of them. Blocks for `limit` at most.
Result<std::size_t> place_in(const NodeNames& nodes, Duration limit);

/// Return the addresses of a name: IPv4 ones, or else IPv6 ones, since a node that has both is
/// still one. Unavailable: it has none now. Blocks.
Result<std::vector<std::string>> addresses_of(const std::string& name);

}  // namespace train
