// Reads what processes have used from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "lib/model/process_sample.h"

namespace train {

/// Read what the process `root` and its descendants have used. Descendants are found through the
/// first thread of each process, and at most 256 are counted. `program`: the one of them whose
/// state matters; 0: the busiest. Costs some 40 µs a process. Empty if there is no such process.
ProcessSample sample_processes(pid_t root, pid_t program);

/// Return `root` and its descendants that have not ended, at most 256.
std::vector<pid_t> process_tree(pid_t root);

/// Return when a process began, in the kernel's ticks: another one may get its pid. 0: there is no
/// such process.
std::uint64_t process_began(pid_t pid);

}  // namespace train
