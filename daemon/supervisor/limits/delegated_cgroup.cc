#include "daemon/supervisor/limits/delegated_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "daemon/supervisor/limits/cgroup.h"

namespace train {
namespace {

constexpr std::array kWanted{"memory", "pids", "cpu"};

int write_word(const std::string& path, const std::string& word) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int failed = ::write(fd, word.data(), word.size()) < 0 ? errno : 0;
  ::close(fd);
  return failed;
}

bool has_word(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == wanted) return true;
  }
  return false;
}

/// Hand the controllers on to the groups below. Return 0, or the errno if an existing controller
/// cannot be handed on.
int hand_on_controllers(const std::string& group) {
  for (const char* controller : kWanted) {
    if (!has_word(group + "/cgroup.controllers", controller)) continue;
    const int failed =
        write_word(group + "/cgroup.subtree_control", fmt::format("+{}", controller));
    if (failed != 0) return failed;
  }
  return 0;
}

std::vector<pid_t> processes_in(const std::string& group) {
  std::ifstream file(group + "/cgroup.procs");
  std::vector<pid_t> pids;
  pid_t pid = 0;
  while (file >> pid) pids.push_back(pid);
  return pids;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return static_cast<pid_t>(std::atol(text.c_str() + name_end + 4));
}

/// Return whether the process is this one, or descends from it.
bool is_ours(pid_t pid) {
  for (; pid > 0; pid = parent_of(pid)) {
    if (pid == ::getpid()) return true;
  }
  return false;
}

/// Return whether systemd marks the group as one that it leaves to a service (Delegate=yes).
bool is_delegated(const std::string& group) {
  char value = 0;
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    if (::getxattr(group.c_str(), name, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

}  // namespace

CgroupTakeover take_over_own_cgroup(const CgroupLocations& locations) {
  if (!locations.v2) return {};
  const std::string& group = *locations.v2;
  CgroupTakeover taken;
  int failed = hand_on_controllers(group);
  if (failed == EBUSY) {
    const std::vector<pid_t> pids = processes_in(group);
    const bool delegated = is_delegated(group);
    for (const pid_t pid : pids) {
      if (!delegated && !is_ours(pid))
        return {.failure = fmt::format(
                    "not moving process {} in the cgroup {}: it does not belong to traind", pid,
                    group)};
    }
    const std::string daemon = fmt::format("{}/{}", group, kDaemonGroup);
    if (::mkdir(daemon.c_str(), 0755) != 0 && errno != EEXIST)
      return {.failure = fmt::format("making the cgroup {}: {}", daemon, ::strerror(errno))};
    for (const pid_t pid : pids) {
      if (const int error = write_word(daemon + "/cgroup.procs", fmt::format("{}", pid));
          error != 0 && error != ESRCH)
        return {.failure = fmt::format("moving process {} to the cgroup {}: {}", pid, daemon,
                                       ::strerror(error))};
    }
    taken.moved_out_of = group;
    failed = hand_on_controllers(group);
  }
  if (failed != 0)
    taken.failure =
        fmt::format("handing on the controllers of the cgroup {}: {}", group, ::strerror(failed));
  return taken;
}

std::vector<std::string> missing_limits() {
  const auto probe = Cgroup::create(fmt::format("trainrun-probe-{}", ::getpid()));
  if (!probe) return {kWanted.begin(), kWanted.end()};
  std::vector<std::string> missing;
  if (const auto child = probe->create_child("probe"))
    missing = child->set_limits({.memory_bytes = 1u << 30, .pids = 100, .cpus = 1});
  else
    missing = {kWanted.begin(), kWanted.end()};
  probe->remove();
  return missing;
}

}  // namespace train
