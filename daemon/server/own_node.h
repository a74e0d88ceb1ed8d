// What this node offers: what was found, changed by traind's options.
#pragma once

#include "daemon/core/node_agent.h"
#include "daemon/server/daemon.h"
#include "lib/base/result.h"

namespace train {

struct OwnNode {
  Resources amounts;
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them
  NodeTraits traits;
};

/// Read it. InvalidArgument names an option that does not fit the node.
Result<OwnNode> read_own_node(const DaemonOptions& options);

}  // namespace train
