// What the kernel holds a process to from its first instruction: privileges, signals, limits. Set
// between fork and exec, where only a few calls are safe.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/process_limits.h"

namespace train {

struct ResourceLimit {
  int resource = 0;    // RLIMIT_NOFILE, …
  rlim_t value = 0;    // soft and hard; RLIM_INFINITY: none
  std::string name{};  // "nofile"
};

struct ProcessRules {
  bool may_gain_privileges = true;  // by executing what is set-user-ID, or has capabilities
  bool keeps_capabilities = true;
  bool killed_for_memory_like_others = false;  // its oom_score_adj is not below 0
  std::vector<int> ignored_signals{};          // of all others the defaults hold, none is blocked
  std::optional<mode_t> umask{};
  std::vector<ResourceLimit> limits{};
};

/// Of a job's processes.
Result<ProcessRules> worker_rules(const ProcessLimits& limits);

/// Whether this process may give such limits to a child.
Result<Unit> check_limits(const ProcessRules& rules);

/// This process is one of the last to be killed when memory is short, as far as we may ask for it:
/// an oom_score_adj, −1000 to 1000.
void ask_to_be_spared(int oom_score_adj);
/// And its pages stay in memory, where nothing limits how many may.
void keep_in_memory();

/// Of the calling process, a child that executes a program next. Returns 0, or errno.
int apply_rules(const ProcessRules& rules);

}  // namespace train
