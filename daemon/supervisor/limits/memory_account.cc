#include "daemon/supervisor/limits/memory_account.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string_view>

namespace train {
namespace {

constexpr std::uint64_t kNoLimitFrom = 1ull << 60;  // v1 says "none" with a huge number

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;  // "max": 0
  return file ? value : 0;
}

/// Return the number from a line such as "oom_kill 3".
std::uint64_t number_of(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string key;
  std::uint64_t value = 0;
  while (file >> key >> value) {
    if (key == wanted) return value;
  }
  return 0;
}

bool is_there(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

MemoryGroup read_group(const std::string& path) {
  MemoryGroup group{.path = path, .kills = oom_kills(path)};
  if (is_there(path + "/memory.oom_control")) {  // v1
    group.limit = number_in(path + "/memory.limit_in_bytes");
    if (group.limit >= kNoLimitFrom) group.limit = 0;
    group.peak = number_in(path + "/memory.max_usage_in_bytes");
    // Where swap is counted, memory and swap together have the same limit, which is hit first.
    group.limit_hits =
        number_in(path + "/memory.failcnt") + number_in(path + "/memory.memsw.failcnt");
    group.reached = group.limit > 0 && group.peak >= group.limit - group.limit / 64;
    return group;
  }
  group.limit = number_in(path + "/memory.max");
  const bool counts_peak = is_there(path + "/memory.peak");  // since Linux 5.19
  group.peak = number_in(path + (counts_peak ? "/memory.peak" : "/memory.current"));
  group.limit_hits = number_of(path + "/memory.events", "oom");
  return group;
}

bool counts_memory(const std::string& path) {
  return is_there(path + "/memory.oom_control") || is_there(path + "/memory.events");
}

/// Read a group and those above it, as far as they count memory.
std::vector<MemoryGroup> read_upwards(std::string path, const std::string& top) {
  std::vector<MemoryGroup> groups;
  while (path.size() >= top.size() && !top.empty()) {
    if (counts_memory(path)) groups.push_back(read_group(path));
    path.resize(std::min(path.rfind('/'), path.size() - 1));
  }
  return groups;
}

std::string owner_of(const std::string& path, bool own) {
  if (own) return "claim";
  const auto has = [&](std::string_view word) { return path.find(word) != std::string::npos; };
  if (has("kubepods")) return "pod";
  if (has("slurm")) return "slurm";
  constexpr std::array kContainers{"docker", "libpod", "containerd", "crio", "lxc"};
  if (std::any_of(kContainers.begin(), kContainers.end(), has)) return "container";
  // In its own namespace a container sees its group as the topmost one.
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "pod";
  if (is_there("/.dockerenv") || is_there("/run/.containerenv")) return "container";
  return path;
}

}  // namespace

std::uint64_t oom_kills(const std::string& folder) {
  const bool v1 = is_there(folder + "/memory.oom_control");
  return number_of(folder + (v1 ? "/memory.oom_control" : "/memory.events"), "oom_kill");
}

std::optional<MemoryLimit> out_of_memory(const std::vector<MemoryGroup>& before,
                                         const std::vector<MemoryGroup>& after, bool own,
                                         bool killed) {
  const std::size_t count = std::min(before.size(), after.size());
  if (count == 0) return std::nullopt;
  const bool counted = after[0].kills > before[0].kills;
  if (!counted || !(own || killed)) return std::nullopt;
  const auto hit = [&](std::size_t i) { return after[i].limit_hits > before[i].limit_hits; };
  const auto reached = [&](std::size_t i) { return after[i].reached; };
  const auto innermost = [&](const auto& condition) {
    std::size_t i = 0;
    while (i < count && !(after[i].limit > 0 && condition(i))) ++i;
    return i;
  };
  std::size_t whose = innermost(hit);
  if (whose == count) whose = innermost(reached);
  if (whose == count) return MemoryLimit{0, own ? after[0].peak : 0, "node"};
  const MemoryGroup& group = after[whose];
  return MemoryLimit{group.limit, group.peak, owner_of(group.path, own && whose == 0)};
}

std::int64_t smallest_limit(const std::vector<MemoryGroup>& groups) {
  std::uint64_t smallest = 0;
  for (const MemoryGroup& group : groups)
    if (group.limit > 0 && (smallest == 0 || group.limit < smallest)) smallest = group.limit;
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(smallest, std::numeric_limits<std::int64_t>::max()));
}

namespace {

std::vector<MemoryGroup> read_all(const std::optional<Cgroup>& group) {
  const CgroupLocations locations = own_cgroup_locations();
  const auto v1 = locations.v1.find("memory");
  const std::string top =
      v1 != locations.v1.end() ? locations.v1_tops.at("memory") : locations.v2_top;
  std::string path = v1 != locations.v1.end() ? v1->second : locations.v2.value_or("");
  if (group) path = group->controller("memory").value_or(path);
  return read_upwards(std::move(path), top);
}

}  // namespace

MemoryAccount MemoryAccount::begin(const std::optional<Cgroup>& group) {
  MemoryAccount account;
  account.before_ = read_all(group);
  account.group_ = group;
  return account;
}

std::optional<MemoryLimit> MemoryAccount::end(bool killed) const {
  const bool own = group_ && group_->controller("memory").has_value();
  return out_of_memory(before_, read_all(group_), own, killed);
}

}  // namespace train
