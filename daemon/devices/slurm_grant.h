// What Slurm has granted to a job on this node, where it confines nothing: without task/cgroup or
// task/affinity, a process sees all cores and all memory. Pure.
#pragma once

#include "lib/model/resources.h"

namespace train {

/// The variables of a batch script or a task of Slurm's on this node; null where one is not set.
struct SlurmVariables {
  const char* node = nullptr;          // SLURMD_NODENAME: without it, Slurm did not start us
  const char* cpus_on_node = nullptr;  // SLURM_CPUS_ON_NODE
  const char* mem_per_node = nullptr;  // SLURM_MEM_PER_NODE, in MiB
  const char* mem_per_cpu = nullptr;   // SLURM_MEM_PER_CPU, in MiB
};

/// Lower what was found on the node to what Slurm has granted. Values that make no sense count for
/// nothing.
void limit_to_slurm_grant(const SlurmVariables& variables, Resources& found);

}  // namespace train
