// Confines a job's processes on this node: rules apply to them from their first instruction on, and
// each has a cgroup inside the attempt's cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/limits/process_rules.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Return what all workers of an attempt on this node may use together.
CgroupLimits limits_of_all(const PrepareAttempt& order);

class Confinement {
 public:
  /// Make the attempt's cgroup, if that can be done.
  void make_cgroup(const std::string& name) { cgroup_ = Cgroup::create(name); }
  Result<Unit> set(const PrepareAttempt& order);

  const ProcessRules& rules() const { return rules_; }
  /// Return the limits that the spec asks for and that cannot be enforced here: "memory", "pids",
  /// "cpu".
  const std::vector<std::string>& missing() const { return missing_; }
  /// Make a group for one worker and what it starts. group_without_claim() makes a group without
  /// limits, for a process that claims nothing.
  /// `role`: WorkerRanks::role; its claim is the group's limit.
  std::optional<Cgroup> worker_group(const std::string& name, std::int32_t role = 0) const;
  std::optional<Cgroup> group_without_claim(const std::string& name) const;
  /// Make a group for an ingest worker, which may use no more than its claim.
  std::optional<Cgroup> ingest_group(const std::string& name, const Resources& claim) const;
  /// Set the limits once more, but for ingest workers: those of cgroup v2 are gone if `traind
  /// cgroup release` has run.
  void renew() const;
  /// Return how many processes and threads were allowed, if a worker in this group was refused one;
  /// otherwise 0.
  std::uint64_t pids_limit_hit(const std::optional<Cgroup>& worker) const;
  /// Kill all processes and remove all groups.
  void end() const;

 private:
  ProcessRules rules_;
  std::optional<Cgroup> cgroup_;  // of the attempt
  CgroupLimits of_all_, of_one_;
  std::vector<CgroupLimits> of_other_roles_;  // of one worker of each
  std::vector<std::string> missing_;
};

}  // namespace train
