#include "daemon/supervisor/limits/cgroup_locations.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "lib/base/text_file.h"

namespace train {
namespace {

struct Mount {
  std::string root, point, type, options;  // options: of the hierarchy, not of the mount
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

/// Parse lines such as
/// "31 23 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory".
std::vector<Mount> cgroup_mounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string& line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto front = split(std::string_view(line).substr(0, dash), ' ');
    const auto back = split(std::string_view(line).substr(dash + 3), ' ');
    if (front.size() < 5 || back.size() < 3 || !back[0].starts_with("cgroup")) continue;
    mounts.push_back({front[3], front[4], back[0], back[2]});
  }
  return mounts;
}

/// Return the folder of a group as a mount shows it, or nothing if the mount shows another part of
/// the tree.
std::optional<std::string> folder_of(const Mount& mount, std::string_view group) {
  if (mount.root != "/") {
    if (!group.starts_with(mount.root)) return std::nullopt;
    group.remove_prefix(mount.root.size());
    if (!group.empty() && group.front() != '/') return std::nullopt;
  }
  return mount.point + (group == "/" ? "" : std::string(group));
}

}  // namespace

CgroupLocations parse_cgroup_locations(std::string_view mountinfo, std::string_view own_groups) {
  CgroupLocations locations;
  const std::vector<Mount> mounts = cgroup_mounts(mountinfo);
  for (const std::string& line : split(own_groups, '\n')) {  // "0::/path", "7:cpu,cpuacct:/path"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string group = line.substr(second + 1);
    const std::string controllers = line.substr(first + 1, second - first - 1);
    for (const Mount& mount : mounts) {
      if (controllers.empty() && mount.type == "cgroup2" && !locations.v2) {
        locations.v2 = folder_of(mount, group);
        locations.v2_top = mount.point;
      }
      if (controllers.empty() || mount.type != "cgroup") continue;
      const auto options = split(mount.options, ',');
      for (const std::string& controller : split(controllers, ',')) {
        if (std::find(options.begin(), options.end(), controller) == options.end()) continue;
        if (const auto folder = folder_of(mount, group)) {
          locations.v1.try_emplace(controller, *folder);
          locations.v1_tops.try_emplace(controller, mount.point);
        }
      }
    }
  }
  return locations;
}

CgroupLocations raw_own_cgroup_locations() {
  return parse_cgroup_locations(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup"));
}

CgroupLocations own_cgroup_locations() {
  CgroupLocations locations = raw_own_cgroup_locations();
  const std::string end = "/" + std::string(kDaemonGroup);
  if (locations.v2 && locations.v2->ends_with(end))
    locations.v2->resize(locations.v2->size() - end.size());
  return locations;
}

}  // namespace train
