// Finds the control groups that a process is in: one in the hierarchy of v2, one in v1 for each
// controller, or, on machines that have both, some of each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace train {

struct CgroupLocations {
  std::optional<std::string> v2;          // the folder of its group
  std::string v2_top;                     // where that hierarchy is mounted
  std::map<std::string, std::string> v1;  // controller → folder of its group
  std::map<std::string, std::string> v1_tops;
};

/// Parse the texts of /proc/self/mountinfo and /proc/self/cgroup.
CgroupLocations parse_cgroup_locations(std::string_view mountinfo, std::string_view own_groups);

/// Return the locations that the kernel gives for this process.
CgroupLocations raw_own_cgroup_locations();

/// Return our own locations. In v2, one group cannot have both processes and limits for the groups
/// below it: if traind has moved itself to a group "daemon" below its own (see delegated_cgroup.h),
/// this is the group above that.
CgroupLocations own_cgroup_locations();

/// The name of that group.
inline constexpr std::string_view kDaemonGroup = "daemon";

}  // namespace train
