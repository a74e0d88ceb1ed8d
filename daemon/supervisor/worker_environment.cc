#include "daemon/supervisor/worker_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace train {

std::map<std::string, std::string> worker_environment(const WorkerEnvironmentInput& input) {
  const StartWorkers& start = input.start;
  std::map<std::string, std::string> env = start.env;
  const auto set = [&](const char* name, const auto& value) {
    env[name] = fmt::format("{}", value);
  };
  const auto set_default = [&](const char* name, const auto& value) {
    env.try_emplace(name, fmt::format("{}", value));
  };

  set("RANK", input.worker.rank);
  set("WORLD_SIZE", start.world_size);
  set("LOCAL_RANK", input.worker.local_rank);
  set("LOCAL_WORLD_SIZE", input.local_world_size);
  set("GROUP_RANK", start.node_rank);
  set("GROUP_WORLD_SIZE", start.node_count);
  set("ROLE_NAME", "default");
  set("ROLE_RANK", input.worker.rank);
  set("ROLE_WORLD_SIZE", start.world_size);
  set("NODE_RANK", start.node_rank);
  set("NNODES", start.node_count);
  set("NPROC_PER_NODE", input.local_world_size);
  if (start.master_port != 0) {
    set("MASTER_ADDR", start.master_addr);
    set("MASTER_PORT", start.master_port);
  }
  set("TORCHELASTIC_RESTART_COUNT", start.restart_count);
  set("TORCHELASTIC_MAX_RESTARTS", start.max_restarts);
  set("TORCHELASTIC_RUN_ID", start.run_id);
  set("TORCHELASTIC_USE_AGENT_STORE", "False");
  set("TORCHELASTIC_ERROR_FILE", input.error_file);
  set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  // Without it Gloo offers its peers what the host's own name resolves to, on many systems a
  // loopback address (Debian writes 127.0.1.1 into /etc/hosts), and they connect to themselves.
  // NCCL leaves loopback out and may use several interfaces.
  if (start.node_count > 1 && !input.network_interface.empty()) {
    set_default("GLOO_SOCKET_IFNAME", input.network_interface);
    set_default("TP_SOCKET_IFNAME", input.network_interface);
  }
  set_default("OMP_NUM_THREADS", std::max(1, static_cast<int>(std::floor(start.cpus_per_worker))));

  // Every worker of the node sees the GPUs of all of them, in the order of local ranks: LOCAL_RANK
  // is the device's index, as under torchrun.
  std::vector<std::int32_t> gpus;
  for (const WorkerPlan& worker : start.workers)
    gpus.insert(gpus.end(), worker.gpu_ids.begin(), worker.gpu_ids.end());
  if (!gpus.empty()) {
    set_default("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    env["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(gpus, ","));
  }
  set("TRAINRUN_SOCKET", input.socket_path);
  set("TRAINRUN_RUN_ID", start.run_id);
  set("TRAINRUN_RUN_NAME", start.run_name);
  set("TRAINRUN_ATTEMPT", input.attempt.value);
  set("TRAINRUN_NODE_RANK", start.node_rank);
  set("TRAINRUN_CHECKPOINT_DIR", input.checkpoint_dir);
  return env;
}

}  // namespace train
