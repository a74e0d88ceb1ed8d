// The rules that the kernel applies to a process from its first instruction on: privileges,
// signals, limits. They are set between fork and exec, where only a few calls are safe.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/process_limits.h"
#include "lib/model/worker_binding.h"

namespace train {

struct ResourceLimit {
  int resource = 0;    // RLIMIT_NOFILE, …
  rlim_t value = 0;    // soft and hard; RLIM_INFINITY: none
  std::string name{};  // "nofile"
};

/// CPUs as sched_setaffinity(2) takes them; empty: all that we may use ourselves.
using CpuMask = std::vector<unsigned long>;

struct ProcessRules {
  bool may_gain_privileges = true;  // by executing what is set-user-ID, or has capabilities
  bool keeps_capabilities = true;
  bool killed_for_memory_like_others = false;  // its oom_score_adj is not below 0
  std::vector<int> ignored_signals{};          // all others have their defaults, none is blocked
  std::optional<mode_t> umask{};
  std::vector<ResourceLimit> limits{};
  CpuMask cpus{};
  int memory_node = -1;  // prefer it for memory; −1: none
};

/// Return the rules for a job's processes.
Result<ProcessRules> worker_rules(const ProcessLimits& limits);

/// Add the CPUs and the NUMA node of a worker. What cannot be read counts as no binding.
void bind(ProcessRules& rules, const WorkerBinding& binding);
/// Bind all threads of a process that runs already, as far as possible.
void bind_process(pid_t pid, const WorkerBinding& binding);

/// Check whether this process may give such limits to a child.
Result<Unit> check_limits(const ProcessRules& rules);

/// Check that the limit on open files suffices for a supervisor of so many workers, so that the
/// error names it, and not whatever fails first for lack of a descriptor.
Result<Unit> check_open_files(std::int64_t workers);

/// Ask the kernel, as far as we may, to kill this process as one of the last when memory is short.
/// `oom_score_adj`: −1000 to 1000.
void ask_to_be_spared(int oom_score_adj);
/// Keep the pages of this process in memory, if nothing limits how many may stay there.
void keep_in_memory();

/// Apply the rules to the calling process, a child that executes a program next. Return 0, or
/// errno.
int apply_rules(const ProcessRules& rules);

}  // namespace train
