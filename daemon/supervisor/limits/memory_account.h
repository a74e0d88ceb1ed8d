// Finds out whether a worker was killed for lack of memory, and whose limit that was. In each group
// the kernel counts such kills, and how often a limit was hit. What was counted while a worker
// lived gives the answer: in its own group, if it has one with a memory controller, and in those
// above it, which may be Slurm's, a pod's or a container's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/limits/cgroup_locations.h"
#include "lib/model/worker_end.h"

namespace train {

struct MemoryGroup {
  std::string path;
  std::uint64_t limit = 0;       // bytes; 0: none
  std::uint64_t peak = 0;        // the most it ever used
  std::uint64_t kills = 0;       // of processes in it
  std::uint64_t limit_hits = 0;  // how often it could get no more
  bool reached = false;          // it reached its limit at some time: v1 does not count every hit
};

/// Return how many processes the kernel killed for lack of memory, from a folder of the memory
/// controller.
std::uint64_t oom_kills(const std::string& folder);

/// Return whose memory limit killed the worker, if one did, from what was counted between `before`
/// and `after`. Both list the same groups, the innermost first. `own`: the first group holds
/// nothing but the worker. `killed`: the worker ended by a SIGKILL; unless `own`, only then can a
/// counted kill have been the worker's. Pure.
std::optional<MemoryLimit> out_of_memory(const std::vector<MemoryGroup>& before,
                                         const std::vector<MemoryGroup>& after, bool own,
                                         bool killed);

/// Return the smallest limit of the groups in bytes; 0 if there is none. Pure.
std::int64_t smallest_limit(const std::vector<MemoryGroup>& groups);

class MemoryAccount {
 public:
  /// Begin the account of a worker that starts now, in this group, or in ours if there is none.
  static MemoryAccount begin(const std::optional<Cgroup>& group);
  /// Return whose limit killed the worker, if one did. Call this once the worker has ended, and
  /// before its group is removed.
  std::optional<MemoryLimit> end(bool killed) const;
  /// Return the bytes that the worker may use, as it was at the start; 0: no limit.
  std::int64_t limit() const { return smallest_limit(before_); }

 private:
  std::vector<MemoryGroup> before_;
  std::optional<Cgroup> group_;
};

}  // namespace train
