// Under what a job's processes run on this node: rules from their first instruction on, and a
// cgroup for each, in one of the attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/limits/process_rules.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// What all workers of an attempt on this node may have together.
CgroupLimits limits_of_all(const PrepareAttempt& order);

class Confinement {
 public:
  /// Make the attempt's cgroup, where that can be done.
  void make_cgroup(const std::string& name) { cgroup_ = Cgroup::create(name); }
  Result<Unit> set(const PrepareAttempt& order);

  const ProcessRules& rules() const { return rules_; }
  /// "memory", "pids", "cpu": what the spec wants its workers held to, and they cannot be.
  const std::vector<std::string>& missing() const { return missing_; }
  /// A group for one worker and what it starts; for a process that claims nothing, without limits.
  std::optional<Cgroup> worker_group(const std::string& name) const;
  std::optional<Cgroup> group_without_claim(const std::string& name) const;
  /// How many processes and threads were to be had, where a worker in this group was refused one.
  std::uint64_t pids_limit_hit(const std::optional<Cgroup>& worker) const;
  /// Kill and remove all.
  void end() const;

 private:
  ProcessRules rules_;
  std::optional<Cgroup> cgroup_;  // of the attempt
  CgroupLimits of_all_, of_one_;
  std::vector<std::string> missing_;
};

}  // namespace train
