// A control group made by a test, like that of Slurm, a service or a container for all that runs in
// it. It uses cgroup v2 if that has the controller, else the controller's v1 hierarchy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {

/// Return whether this test may make groups with this controller ("memory", "pids"). Needs root.
bool can_limit(const std::string& controller);
inline constexpr const char* kCannotLimit = "needs root, and a cgroup tree with this controller";

class OuterGroup {
 public:
  explicit OuterGroup(const std::string& name, const std::string& controller = "memory");
  ~OuterGroup();  // waits until all processes in it have ended
  OuterGroup(const OuterGroup&) = delete;
  OuterGroup& operator=(const OuterGroup&) = delete;

  const std::string& path() const { return path_; }
  bool limit_memory(int mebibytes) const;
  int memory_used() const;  // MiB
  /// In v2, delegate the group to its processes, as systemd does with Delegate=yes.
  OuterGroup& delegate();

  /// Return options that start a process inside.
  StartOptions inside() const;
  /// Return options that start a process inside, unable to make its own groups.
  StartOptions inside_without_groups() const;

 private:
  std::string path_;
  bool v2_ = false;
};

/// A group in which trainrun can limit workers, on any machine with can_limit().
class LimitingGroup {
 public:
  explicit LimitingGroup(const std::string& controller = "memory");
  /// With v1, the test's own group suffices.
  StartOptions inside() const { return group_ ? group_->inside() : StartOptions{}; }

 private:
  std::optional<OuterGroup> group_;
};

}  // namespace train::e2e
