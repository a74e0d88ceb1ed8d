// Decides whether a run's controller is taken over: only if it is really gone, and not if this node
// alone has lost touch with it. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// What a node that the controller was last in touch with says of it.
struct FailoverVoter {
  std::string node;       // its address
  bool answered = false;  // whether the run's launcher is connected to it
  bool attached = false;  // it is
};

/// Return Unavailable, with the reason, unless more than half of the nodes answer and none is in
/// touch with the controller: then it is gone, or cut off from most nodes.
Result<Unit> may_take_over(const std::vector<FailoverVoter>& voters);

}  // namespace train
