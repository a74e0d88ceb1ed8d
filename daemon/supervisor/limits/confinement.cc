#include "daemon/supervisor/limits/confinement.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace train {
namespace {

constexpr const char* kRolePrefix = "role-";  // of the groups of workers of other roles

/// Return how many processes and threads this machine can have. An attempt may use half of them: a
/// fork bomb must leave some to others.
std::uint64_t pids_of_machine() {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const char* path : {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"}) {
    std::ifstream file(path);
    std::uint64_t value = 0;
    if (file >> value && value > 0) most = std::min(most, value);
  }
  return most;
}

}  // namespace

CgroupLimits limits_of_all(const PrepareAttempt& order) {
  double cpus = order.per_worker.cpu * order.local_world_size + order.ingest.cpu;
  for (const RoleClaim& role : order.other_roles) cpus += role.per_worker.cpu * role.workers;
  return {.pids = pids_of_machine() / 2, .cpus = cpus};
}

Result<Unit> Confinement::set(const PrepareAttempt& order) {
  TRY(rules_, worker_rules(order.limits));
  TRY_VOID(check_limits(rules_));
  of_one_ = {.memory_bytes = order.per_worker.memory_bytes,
             .pids = order.limits.pids_max,
             .cpus = order.per_worker.cpu,
             .cpus_at_most = order.limits.cpu_limit};
  of_other_roles_.clear();
  bool of_memory = of_one_.memory_bytes > 0 || order.ingest.memory_bytes > 0;
  for (const RoleClaim& role : order.other_roles) {
    CgroupLimits& limits = of_other_roles_.emplace_back(of_one_);
    limits.memory_bytes = role.per_worker.memory_bytes;
    limits.cpus = role.per_worker.cpu;
    of_memory |= limits.memory_bytes > 0 && role.workers > 0;
  }
  of_all_ = limits_of_all(order);
  missing_.clear();
  const auto look = [&](const char* name, bool asked) {
    if (asked && !(cgroup_ && cgroup_->controller(name))) missing_.emplace_back(name);
  };
  look("memory", of_memory);
  look("pids", of_one_.pids > 0);
  look("cpu", of_one_.cpus_at_most);
  if (cgroup_) cgroup_->set_limits(of_all_);
  return Unit{};
}

std::optional<Cgroup> Confinement::group_without_claim(const std::string& name) const {
  return cgroup_ ? cgroup_->create_child(name) : std::nullopt;
}

std::optional<Cgroup> Confinement::worker_group(const std::string& name, std::int32_t role) const {
  if (role <= 0) {
    auto group = group_without_claim(name);
    if (group) group->set_limits(of_one_);
    return group;
  }
  auto group = group_without_claim(fmt::format("{}{}-{}", kRolePrefix, role, name));
  if (group) group->set_limits(of_other_roles_.at(static_cast<std::size_t>(role) - 1));
  return group;
}

std::optional<Cgroup> Confinement::ingest_group(const std::string& name,
                                                const Resources& claim) const {
  CgroupLimits limits = of_one_;
  limits.memory_bytes = claim.memory_bytes;
  limits.cpus = claim.cpu;
  auto group = group_without_claim(name);
  if (group) group->set_limits(limits);
  return group;
}

void Confinement::renew() const {
  if (!cgroup_) return;
  cgroup_->hand_on_again();
  cgroup_->set_limits(of_all_);
  for (const std::string& name : cgroup_->child_names()) {
    for (std::size_t i = 0; i < of_other_roles_.size(); ++i)
      if (const std::string prefix = fmt::format("{}{}-", kRolePrefix, i + 1);
          name.starts_with(prefix))
        (void)worker_group(name.substr(prefix.size()), static_cast<std::int32_t>(i) + 1);
    if (name.starts_with("rank-") || name.starts_with("standby-") || name.starts_with("hook-") ||
        name.starts_with("setup-") || name.starts_with("exec-"))
      (void)worker_group(name);
  }
}

std::uint64_t Confinement::pids_limit_hit(const std::optional<Cgroup>& worker) const {
  if (!cgroup_ || !worker) return 0;
  if (worker->refused_processes() == 0 && cgroup_->refused_processes() == 0) return 0;
  return of_one_.pids > 0 ? of_one_.pids : of_all_.pids;
}

void Confinement::end() const {
  if (!cgroup_) return;
  cgroup_->kill();
  cgroup_->remove();
}

}  // namespace train
