// Prepares traind's own group once, so that the groups of its workers can have limits. In cgroup v2
// a group that hands controllers to those below it may hold no processes itself. So traind moves
// its own processes to a group "daemon" below, if there are no others.
#pragma once

#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup_locations.h"

namespace train {

/// Take over our own group. Return why that failed, or "" if it worked, or if there is nothing to
/// do or no way to do it.
std::string take_over_own_cgroup(const CgroupLocations& locations);

/// Return the limits that cannot be enforced for a worker here: "memory", "pids", "cpu".
std::vector<std::string> missing_limits();

}  // namespace train
