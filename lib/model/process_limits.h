#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lib/model/fields.h"

namespace train {

struct ProcessLimits {  // the limits that the kernel enforces on each worker
  std::uint32_t umask = 077;
  std::map<std::string, std::int64_t> rlimits;  // "nofile" → soft and hard; −1: unlimited
  bool keep_capabilities = false;
  bool cpu_limit = false;  // limit CPU time to the claimed amount
  // Processes and threads of one worker; 0: its share of the node's limit.
  std::uint64_t pids_max = 0;
  bool operator==(const ProcessLimits&) const = default;
  TRAIN_FIELDS(umask, rlimits, keep_capabilities, cpu_limit, pids_max)
};

}  // namespace train
