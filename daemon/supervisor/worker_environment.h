// The environment of one worker: the job's, and what torchrun's users and our SDK expect. Pure.
#pragma once

#include <map>
#include <string>

#include "lib/base/ids.h"
#include "lib/wire/messages.h"

namespace train {

struct WorkerEnvironmentInput {
  const StartWorkers& start;
  const WorkerPlan& worker;
  int local_world_size = 0;
  Attempt attempt;
  std::string socket_path;
  std::string checkpoint_dir;
  std::string error_file;
  std::string network_interface;  // that other nodes reach; "": not known
};

/// torchrun's variables in full (RANK, WORLD_SIZE, LOCAL_RANK, …, TORCHELASTIC_*), the NODE
/// aliases, TRAINRUN_*, and, unless the job sets them itself, OMP_NUM_THREADS (cores of a worker),
/// TORCH_NCCL_ASYNC_ERROR_HANDLING and, with several nodes, GLOO_SOCKET_IFNAME and
/// TP_SOCKET_IFNAME.
std::map<std::string, std::string> worker_environment(const WorkerEnvironmentInput& input);

}  // namespace train
