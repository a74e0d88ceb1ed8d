// Reads what processes have used from /proc.
#pragma once

#include <sys/types.h>

#include "lib/model/process_sample.h"

namespace train {

/// Read what the process `root` and its descendants have used. Descendants are found through the
/// first thread of each process, and at most 256 are counted. `program`: the one of them whose
/// state matters; 0: the busiest. Costs some 40 µs a process. Empty if there is no such process.
ProcessSample sample_processes(pid_t root, pid_t program);

}  // namespace train
