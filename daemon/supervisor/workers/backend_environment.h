// The variables by which workers of each backend find each other, besides torchrun's. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/backend_profile.h"
#include "lib/model/worker_ranks.h"

namespace train {

struct BackendInput {
  const BackendProfile& profile;
  const std::vector<std::string>& peers;  // host:port of every held port, by rank
  const WorkerRanks& ranks;
  int gpus_per_worker = 0;
  int pmi_fd = -1;  // mpi: the process's end of its socket; -1: not opened yet
  std::vector<std::int32_t> node_sizes = {};  // workers of each node
  std::string network_interface = {};         // that other nodes reach; "": loopback
};

/// Return what the profile tells the worker; nothing for torch and none.
std::map<std::string, std::string> backend_environment(const BackendInput& input);

}  // namespace train
