// A cgroup for each worker, so that whatever it forks dies with it, however it hides (setsid,
// double fork), and so that it gets no more than it claimed. We list and kill processes in cgroup
// v2 (cgroup.kill) if it is mounted and writable, otherwise in v1's freezer. Elsewhere the
// supervisor is the subreaper of its descendants and kills those. We set each limit in v2 if its
// controller is there, otherwise in the hierarchy that v1 has for it: many machines have some of
// both.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

enum class CgroupVersion { V2, V1 };

/// What the processes of a group may use together; 0: no limit.
struct CgroupLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t pids = 0;  // threads count, too
  double cpus = 0;         // their share when CPUs are short
  bool cpus_at_most = false;
};

class Cgroup {
 public:
  /// Make <own cgroup>/<name> in the first hierarchy that allows it, and in those of the limits.
  /// Return nothing if no hierarchy allows it.
  static std::optional<Cgroup> create(const std::string& name);
  static std::optional<Cgroup> create_in(CgroupVersion version, const std::string& name);
  /// Return the same group, without making it, for killing what another process left.
  static std::optional<Cgroup> existing(const std::string& name);
  /// Hand the controllers on to the groups below once more, here and in the group above: `traind
  /// cgroup release` may have taken them off. For v2 only.
  void hand_on_again() const;
  std::vector<std::string> child_names() const;
  /// Make a child of this group.
  std::optional<Cgroup> create_child(const std::string& name) const;

  /// Delegate the group to another user, who may make groups below it but not change its own
  /// limits. Return the group for the user's first process: the child kDaemonGroup in v2, where a
  /// group that hands controllers on holds no processes, or the group itself in v1. Return nothing
  /// if it cannot be delegated.
  std::optional<Cgroup> delegate_to(uid_t uid, gid_t gid) const;

  /// Return the file into which a process writes "0" to move itself here, except into the limits of
  /// v1.
  std::string procs_path() const { return path_ + "/cgroup.procs"; }
  /// Return the files into which a process with one thread writes "0" to move itself into those
  /// limits as well, which costs it nothing. Moving all threads of a process would wait for every
  /// CPU.
  std::vector<std::string> limit_paths() const;
  /// Set the limits. Return which of them could not be set: "memory", "pids", "cpu".
  std::vector<std::string> set_limits(const CgroupLimits& limits) const;
  /// Return the folder that has a controller's files, in whichever hierarchy it is, or nothing if
  /// no hierarchy has it.
  std::optional<std::string> controller(const std::string& name) const;
  /// Send SIGKILL to every process here and below.
  void kill() const;
  bool populated() const;
  /// Return how often a process or thread was refused here.
  std::uint64_t refused_processes() const;
  /// Remove the folders here and below; only works once they are empty.
  void remove() const;
  const std::string& path() const { return path_; }

 private:
  explicit Cgroup(std::string path) : path_(std::move(path)) {}
  std::vector<std::string> folders() const;
  std::string path_;
  std::map<std::string, std::string> v1_;  // controller → folder, where v2 does not have it
};

}  // namespace train
