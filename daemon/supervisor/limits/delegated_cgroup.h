// Prepares traind's own group once, so that the groups of its workers can have limits. In cgroup v2
// a group that hands controllers to those below it may hold no processes itself. So traind moves
// what is its own to a group "daemon" below, if nobody else is there.
#pragma once

#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup_locations.h"

namespace train {

/// Take over our own group. Return why that failed, or "" if it worked, or if there is nothing to
/// do or no way to do it.
std::string take_over_own_cgroup(const CgroupLocations& locations);

/// Return what a worker here cannot be held to: "memory", "pids", "cpu".
std::vector<std::string> missing_limits();

}  // namespace train
