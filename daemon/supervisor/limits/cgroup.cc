#include "daemon/supervisor/limits/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "daemon/supervisor/limits/cgroup_locations.h"

namespace train {
namespace {

constexpr int kCpuPeriodUs = 100000;
constexpr std::array kControllers{"memory", "pids", "cpu"};

std::optional<std::string> own_cgroup(const CgroupLocations& locations, CgroupVersion version) {
  if (version == CgroupVersion::V2) return locations.v2;
  const auto freezer = locations.v1.find("freezer");
  return freezer == locations.v1.end() ? std::nullopt : std::optional(freezer->second);
}

bool write_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return ok;
}

template <class F>
void for_each_folder(const std::string& path, F&& f) {
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') f(path + "/" + entry->d_name);
  }
  ::closedir(dir);
}

void remove_below(const std::string& path) {
  for_each_folder(path, remove_below);
  ::rmdir(path.c_str());
}

// v1, and kernels before 5.14, lack cgroup.kill: signal the listed processes until none is left. In
// v1 the group is frozen meanwhile, so that nothing can fork away.
void kill_listed(const std::string& path) {
  for_each_folder(path, kill_listed);
  write_file(path + "/freezer.state", "FROZEN");
  for (int round = 0; round < 100; ++round) {
    std::ifstream procs(path + "/cgroup.procs");
    pid_t pid = 0;
    bool any = false;
    while (procs >> pid) any |= ::kill(pid, SIGKILL) == 0;
    write_file(path + "/freezer.state", "THAWED");  // a frozen process dies only when it runs again
    if (!any) return;
  }
}

// v1: cgroup.procs does not list the processes of the groups below.
bool lists_any(const std::string& path) {
  std::ifstream procs(path + "/cgroup.procs");
  pid_t pid = 0;
  bool any = static_cast<bool>(procs >> pid);
  for_each_folder(path, [&](const std::string& below) { any = any || lists_any(below); });
  return any;
}

bool is_group(const std::string& path) {
  return ::access((path + "/cgroup.procs").c_str(), F_OK) == 0;
}

bool make_group(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return false;
  return ::access((path + "/cgroup.procs").c_str(), W_OK) == 0;
}

}  // namespace

std::optional<Cgroup> Cgroup::create(const std::string& name) {
  auto group = create_in(CgroupVersion::V2, name);
  if (!group) group = create_in(CgroupVersion::V1, name);
  if (!group) return std::nullopt;
  const CgroupLocations locations = own_cgroup_locations();
  for (const char* controller : kControllers) {
    if (write_file(group->path_ + "/cgroup.subtree_control", fmt::format("+{}", controller)))
      continue;  // v2 has it, for each child
    const auto own = locations.v1.find(controller);
    if (own == locations.v1.end()) continue;
    const std::string folder = own->second + "/" + name;
    if (make_group(folder)) group->v1_[controller] = folder;
  }
  return group;
}

std::optional<Cgroup> Cgroup::create_in(CgroupVersion version, const std::string& name) {
  const auto own = own_cgroup(own_cgroup_locations(), version);
  if (!own) return std::nullopt;
  Cgroup group(*own + "/" + name);
  if (!make_group(group.path_)) return std::nullopt;
  return group;
}

std::optional<Cgroup> Cgroup::existing(const std::string& name) {
  const CgroupLocations locations = own_cgroup_locations();
  std::optional<Cgroup> group;
  for (const CgroupVersion version : {CgroupVersion::V2, CgroupVersion::V1}) {
    const auto own = own_cgroup(locations, version);
    if (group || !own || !is_group(*own + "/" + name)) continue;
    group = Cgroup(*own + "/" + name);
  }
  for (const char* controller : kControllers) {
    const auto own = locations.v1.find(controller);
    if (own == locations.v1.end() || !is_group(own->second + "/" + name)) continue;
    if (!group) group = Cgroup(own->second + "/" + name);
    group->v1_[controller] = own->second + "/" + name;
  }
  return group;
}

void Cgroup::hand_on_again() const {
  for (const std::string& group : {path_.substr(0, path_.rfind('/')), path_})
    for (const char* controller : kControllers)
      write_file(group + "/cgroup.subtree_control", fmt::format("+{}", controller));
}

std::vector<std::string> Cgroup::child_names() const {
  std::vector<std::string> names;
  for_each_folder(path_, [&](const std::string& below) {
    names.push_back(below.substr(below.rfind('/') + 1));
  });
  return names;
}

std::optional<Cgroup> Cgroup::create_child(const std::string& name) const {
  Cgroup group(path_ + "/" + name);
  if (!make_group(group.path_)) return std::nullopt;
  for (const auto& [controller, folder] : v1_) {
    if (make_group(folder + "/" + name)) group.v1_[controller] = folder + "/" + name;
  }
  return group;
}

// Delegate the group as systemd does (cgroups(7), "Cgroups delegation").
std::optional<Cgroup> Cgroup::delegate_to(uid_t uid, gid_t gid) const {
  const bool v2 = ::access((path_ + "/cgroup.subtree_control").c_str(), F_OK) == 0;
  std::optional<Cgroup> first(*this);
  if (v2) {
    first = Cgroup(path_ + "/" + std::string(kDaemonGroup));
    if (!make_group(first->path_)) return std::nullopt;
    first->v1_ = v1_;
    // Bound the tree, because traind walks through all of it when it reaps leftovers.
    write_file(path_ + "/cgroup.max.descendants", "10000");
    write_file(path_ + "/cgroup.max.depth", "32");
  }
  for (const std::string& folder : folders()) {
    for (const char* file :
         {"", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control", "/tasks"}) {
      if (::lchown((folder + file).c_str(), uid, gid) != 0 && errno != ENOENT) return std::nullopt;
    }
  }
  return first;
}

std::vector<std::string> Cgroup::limit_paths() const {
  std::set<std::string> paths;  // controllers may share a hierarchy
  for (const auto& [controller, folder] : v1_) paths.insert(folder + "/tasks");
  return {paths.begin(), paths.end()};
}

std::optional<std::string> Cgroup::controller(const std::string& name) const {
  if (const auto found = v1_.find(name); found != v1_.end()) return found->second;
  const auto file = name == "memory" ? "/memory.max" : name == "pids" ? "/pids.max" : "/cpu.weight";
  if (::access((path_ + file).c_str(), F_OK) == 0) return path_;
  return std::nullopt;
}

std::vector<std::string> Cgroup::set_limits(const CgroupLimits& limits) const {
  std::vector<std::string> missing;
  const auto set = [&](const char* name, bool asked, const auto& write) {
    if (!asked) return;
    const auto folder = controller(name);
    if (!folder || !write(*folder, v1_.contains(name))) missing.emplace_back(name);
  };
  set("memory", limits.memory_bytes > 0, [&](const std::string& folder, bool v1) {
    const std::string bytes = fmt::format("{}", limits.memory_bytes);
    if (!write_file(folder + (v1 ? "/memory.limit_in_bytes" : "/memory.max"), bytes)) return false;
    // These files are missing where swap is not counted: the limit is then one of memory alone.
    if (v1) {
      write_file(folder + "/memory.memsw.limit_in_bytes", bytes);
    } else {
      write_file(folder + "/memory.swap.max", "0");
      write_file(folder + "/memory.oom.group", "1");  // kill the whole rank, not one process of it
    }
    return true;
  });
  set("pids", limits.pids > 0, [&](const std::string& folder, bool) {
    return write_file(folder + "/pids.max", fmt::format("{}", limits.pids));
  });
  set("cpu", limits.cpus > 0, [&](const std::string& folder, bool v1) {
    const auto share = [&](double of_one, double min, double max) {
      return fmt::format("{:.0f}", std::clamp(limits.cpus * of_one, min, max));
    };
    const bool ok = v1 ? write_file(folder + "/cpu.shares", share(1024, 2, 262144))
                       : write_file(folder + "/cpu.weight", share(100, 1, 10000));
    if (!limits.cpus_at_most) return ok;
    const std::string quota = share(kCpuPeriodUs, 1000, 1e12);
    if (!v1) return write_file(folder + "/cpu.max", fmt::format("{} {}", quota, kCpuPeriodUs));
    return write_file(folder + "/cpu.cfs_period_us", fmt::format("{}", kCpuPeriodUs)) &&
           write_file(folder + "/cpu.cfs_quota_us", quota);
  });
  return missing;
}

std::vector<std::string> Cgroup::folders() const {
  std::set<std::string> all{path_};
  for (const auto& [controller, folder] : v1_) all.insert(folder);
  return {all.begin(), all.end()};
}

void Cgroup::kill() const {
  if (!write_file(path_ + "/cgroup.kill", "1")) kill_listed(path_);
}

bool Cgroup::populated() const {
  std::ifstream events(path_ + "/cgroup.events");  // v2
  std::string key;
  int value = 0;
  while (events >> key >> value) {
    if (key == "populated") return value != 0;
  }
  return lists_any(path_);
}

std::uint64_t Cgroup::refused_processes() const {
  std::ifstream events(controller("pids").value_or("") + "/pids.events");
  std::string key;
  std::uint64_t value = 0;
  while (events >> key >> value) {
    if (key == "max") return value;
  }
  return 0;
}

void Cgroup::remove() const {
  for (const std::string& folder : folders()) remove_below(folder);
}

}  // namespace train
