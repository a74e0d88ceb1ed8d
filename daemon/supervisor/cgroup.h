// A cgroup for each worker, so that whatever it forks dies with it, however it hides (setsid,
// double fork). Only the list of processes and a way to kill them are needed, no limit: cgroup v2
// (cgroup.kill) where it is mounted and writable, else v1's freezer. Elsewhere the supervisor is
// the subreaper of its descendants and kills those.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"

namespace train {

enum class CgroupVersion { V2, V1 };

class Cgroup {
 public:
  /// Make <own cgroup>/<name> in the first hierarchy that lets us; nothing where none does.
  static std::optional<Cgroup> create(const std::string& name);
  static std::optional<Cgroup> create_in(CgroupVersion version, const std::string& name);
  /// The same, without making it: for sweeping what another process left.
  static std::optional<Cgroup> existing(const std::string& name);
  /// A child of this one.
  std::optional<Cgroup> create_child(const std::string& name) const;

  /// The file that a process writes "0" into to move itself here.
  std::string procs_path() const { return path_ + "/cgroup.procs"; }
  /// SIGKILL to every process here and below.
  void kill() const;
  bool populated() const;
  /// How often the kernel's OOM killer struck here; nothing without the memory controller.
  std::optional<std::uint64_t> oom_kills() const;
  /// Remove the folders here and below; only works once they are empty.
  void remove() const;
  const std::string& path() const { return path_; }

 private:
  explicit Cgroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Kill every child of this process that is not in `known` (descendants that were orphaned to us as
/// their subreaper), and reap them. The fallback where there is no cgroup. Returns how many there
/// were.
int kill_adopted_children(const std::string& known_pids);

}  // namespace train
