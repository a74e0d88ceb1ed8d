// Prepares traind's own group once, so that the groups of its workers can have limits. In cgroup v2
// a group that hands controllers to those below it may hold no processes itself. So traind moves
// its own processes to a group "daemon" below, if there are no others.
#pragma once

#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup_locations.h"

namespace train {

struct CgroupTakeover {
  std::string failure = {};       // why not; "": it worked, or there is nothing to do
  std::string moved_out_of = {};  // the group that we were in, if we had to leave it
};

/// Take over our own group.
CgroupTakeover take_over_own_cgroup(const CgroupLocations& locations);

/// Return the limits that cannot be enforced for a worker here: "memory", "pids", "cpu".
std::vector<std::string> missing_limits();

}  // namespace train
