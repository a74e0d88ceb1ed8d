// Copies a worker's core file into its run's folder, attempts/NNN/cores: the original is the next
// to be overwritten, and lies on the worker's node.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/supervisor/workers/core_file.h"
#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct CoreCopyOrder {
  std::string core = {};  // the file
  pid_t pid = 0;          // whose it must be
  std::string run_dir = {};
  Attempt attempt;
  Rank rank;
  TimePoint deadline = TimePoint::max();
  std::uint64_t bytes_max = std::uint64_t{2} << 30;  // that the file takes; holes take none
};

inline constexpr int kCoresOfRunMax = 4;

/// Copy the file, and return the path of the copy. Holes stay holes, links are not followed, and
/// the original stays. Fails if the run's folder is not on this node's disks, if there are
/// kCoresOfRunMax already, if it is too large or not of this process and user, or if it takes too
/// long. Blocks.
Result<std::string> copy_core(const CoreCopyOrder& order);

}  // namespace train
