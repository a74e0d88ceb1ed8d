#include "daemon/supervisor/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace train {
namespace {

// Our own place in a hierarchy: its mount point from mountinfo, the rest from /proc/self/cgroup
// ("0::/path" is v2, "7:freezer:/path" v1).
std::optional<std::string> own_cgroup(CgroupVersion version) {
  const std::string_view type = version == CgroupVersion::V2 ? " - cgroup2 " : " - cgroup ";
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line, mount_point;
  while (mount_point.empty() && std::getline(mounts, line)) {
    if (line.find(type) == std::string::npos) continue;
    if (version == CgroupVersion::V1 && line.find("freezer") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5 && fields >> field; ++i) {
    }
    mount_point = field;
  }
  if (mount_point.empty()) return std::nullopt;
  const std::string_view key = version == CgroupVersion::V2 ? "0::" : ":freezer:";
  std::ifstream own("/proc/self/cgroup");
  while (std::getline(own, line)) {
    const auto at = line.find(key);
    if (at == std::string::npos || (version == CgroupVersion::V2 && at != 0)) continue;
    const std::string path = line.substr(at + key.size());
    return mount_point + (path == "/" ? "" : path);
  }
  return std::nullopt;
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

// v1, and kernels before 5.14, lack cgroup.kill: signal what is listed, until nothing is. Frozen
// meanwhile (v1), nothing can fork away.
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

}  // namespace

std::optional<Cgroup> Cgroup::create(const std::string& name) {
  auto group = create_in(CgroupVersion::V2, name);
  return group ? group : create_in(CgroupVersion::V1, name);
}

std::optional<Cgroup> Cgroup::create_in(CgroupVersion version, const std::string& name) {
  const auto own = own_cgroup(version);
  if (!own) return std::nullopt;
  Cgroup group(*own + "/" + name);
  if (::mkdir(group.path_.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
  if (::access(group.procs_path().c_str(), W_OK) != 0) return std::nullopt;
  return group;
}

std::optional<Cgroup> Cgroup::existing(const std::string& name) {
  for (const CgroupVersion version : {CgroupVersion::V2, CgroupVersion::V1}) {
    const auto own = own_cgroup(version);
    if (!own) continue;
    Cgroup group(*own + "/" + name);
    if (::access(group.procs_path().c_str(), F_OK) == 0) return group;
  }
  return std::nullopt;
}

std::optional<Cgroup> Cgroup::create_child(const std::string& name) const {
  Cgroup group(path_ + "/" + name);
  if (::mkdir(group.path_.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
  return group;
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
  std::ifstream procs(path_ + "/cgroup.procs");
  return static_cast<bool>(procs >> value);
}

std::optional<std::uint64_t> Cgroup::oom_kills() const {
  std::ifstream events(path_ + "/memory.events");
  std::string key;
  std::uint64_t value = 0;
  while (events >> key >> value) {
    if (key == "oom_kill") return value;
  }
  return std::nullopt;
}

void Cgroup::remove() const { remove_below(path_); }

int kill_adopted_children(const std::string& known_pids) {
  std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
  const std::string known = " " + known_pids + " ";
  int killed = 0;
  pid_t pid = 0;
  while (children >> pid) {
    if (known.find(fmt::format(" {} ", pid)) != std::string::npos) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, WNOHANG);
    ++killed;
  }
  return killed;
}

}  // namespace train
