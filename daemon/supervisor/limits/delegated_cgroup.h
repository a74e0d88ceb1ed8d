// What traind does once, so that the groups of its workers can have limits: in cgroup v2 a group
// that hands controllers to those below it may hold no processes itself. So traind moves what is
// its own to a group "daemon" below, if nobody else is there.
#pragma once

#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup_places.h"

namespace train {

/// Returns why not, or "" where there is nothing to be done, or no way.
std::string take_over_own_cgroup(const CgroupPlaces& places);

/// "memory", "pids", "cpu": what a worker here cannot be held to.
std::vector<std::string> missing_limits();

}  // namespace train
