// What the kernel holds a process to from its first instruction: privileges, signals, limits. Set
// between fork and exec, where only a few calls are safe.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct ResourceLimit {
  int resource = 0;    // RLIMIT_NOFILE, …
  rlim_t value = 0;    // soft and hard; RLIM_INFINITY: none
  std::string name{};  // "nofile"
};

struct ProcessRules {
  bool privileged = true;  // false: no capability, and none to be gained by what it executes
  bool killed_for_memory_like_others = false;  // its oom_score_adj is not below 0
  std::vector<int> ignored_signals{};          // of all others the defaults hold, none is blocked
  std::optional<mode_t> umask{};
  std::vector<ResourceLimit> limits{};
};

/// "nofile", …, as prlimit(1) names them; nothing for another name.
std::optional<int> rlimit_of(std::string_view name);

/// Of a job's processes.
ProcessRules worker_rules();

/// Whether this process may give such limits to a child.
Result<Unit> check_limits(const ProcessRules& rules);

/// Of the calling process, a child that executes a program next. Returns 0, or errno.
int apply_rules(const ProcessRules& rules);

}  // namespace train
