// A control group that a test makes, as Slurm, a service or a container gives one to all that runs
// in it; in cgroup v2 where that has the controller, else in the hierarchy that v1 has for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {

/// Whether this test may make groups with this controller ("memory", "pids"): needs root.
bool can_limit(const std::string& controller);
inline constexpr const char* kCannotLimit = "needs root, and a cgroup tree with this controller";

class OuterGroup {
 public:
  explicit OuterGroup(const std::string& name, const std::string& controller = "memory");
  ~OuterGroup();  // waits until all that ran in it has ended
  OuterGroup(const OuterGroup&) = delete;
  OuterGroup& operator=(const OuterGroup&) = delete;

  const std::string& path() const { return path_; }
  bool limit_memory(int mebibytes) const;
  int memory_used() const;  // MiB
  /// In v2: leave it to whoever runs in it, as systemd does with Delegate=yes.
  OuterGroup& delegate();

  /// What is started so is in it.
  StartOptions inside() const;
  /// And can make no groups of its own.
  StartOptions inside_without_groups() const;

 private:
  std::string path_;
  bool v2_ = false;
};

/// A group in which trainrun can limit what workers have, on any machine that can_limit().
class LimitingGroup {
 public:
  explicit LimitingGroup(const std::string& controller = "memory");
  /// With v1 the test's own place will do.
  StartOptions inside() const { return group_ ? group_->inside() : StartOptions{}; }

 private:
  std::optional<OuterGroup> group_;
};

}  // namespace train::e2e
