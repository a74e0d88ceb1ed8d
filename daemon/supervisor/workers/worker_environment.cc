#include "daemon/supervisor/workers/worker_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "daemon/supervisor/workers/backend_environment.h"

namespace train {
namespace {

using Environment = std::map<std::string, std::string>;

template <class Value>
void set(Environment& env, const char* name, const Value& value) {
  env[name] = fmt::format("{}", value);
}

template <class Value>
void set_default(Environment& env, const char* name, const Value& value) {
  env.try_emplace(name, fmt::format("{}", value));
}

bool set_by_job(const StartWorkers& start, const std::string& name) {
  return std::find(start.job_env.begin(), start.job_env.end(), name) != start.job_env.end();
}
bool set_by_job(const NodeEnvironment& node, const std::string& name) {
  return set_by_job(node.start, name) || (node.role != nullptr && node.role->env.contains(name));
}

/// Variables that may come from an outer launcher, for processes without a rank.
constexpr std::array kRankVariables{"RANK",        "WORLD_SIZE",       "LOCAL_RANK",
                                    "GROUP_RANK",  "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR", "MASTER_PORT"};

/// Return the only GPU that the worker sees, if workers share GPUs: LOCAL_RANK is no index then.
std::string shared_gpu(const NodeEnvironment& node, int local_rank) {
  if (node.gpus.empty() || node.gpus_per_worker <= 0 || node.gpus_per_worker >= 1) return "";
  const auto sharers = static_cast<std::size_t>(std::floor(1 / node.gpus_per_worker + 1e-6));
  const std::size_t gpu = static_cast<std::size_t>(std::max(0, local_rank)) / sharers;
  return node.gpus[std::min(gpu, node.gpus.size() - 1)];
}

Environment common_environment(const NodeEnvironment& node, double cpus) {
  const StartWorkers& start = node.start;
  Environment env = start.env;
  if (node.role != nullptr)
    for (const auto& [name, value] : node.role->env) env[name] = value;
  set_default(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  set_default(env, "OMP_NUM_THREADS", std::max(1, static_cast<int>(std::floor(cpus))));
  // Every worker of a role sees the node's GPUs of all of them, in the order of local ranks:
  // LOCAL_RANK is the device's index, as under torchrun. Workers without a claim see none, whatever
  // the submitter's own shell sees, because other runs hold them.
  if (!node.gpus.empty()) {
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // that of the node's indexes
    env["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(node.gpus, ","));
  } else if (!set_by_job(node, "CUDA_VISIBLE_DEVICES")) {
    env["CUDA_VISIBLE_DEVICES"] = "";
  }
  for (const char* of_outer_run : {"TRAINRUN_INGEST", "TRAINRUN_INGEST_ADDRESS"})
    env.erase(of_outer_run);
  set(env, "TRAINRUN_SOCKET", node.socket_path);
  set(env, "TRAINRUN_RUN_ID", start.run.run_id);
  set(env, "TRAINRUN_RUN_NAME", start.run.run_name);
  set(env, "TRAINRUN_ATTEMPT", node.attempt.value);
  return env;
}

}  // namespace

std::map<std::string, std::string> account_environment() {
  std::map<std::string, std::string> own;
  for (const char* name : {"HOME", "LOGNAME", "SHELL", "USER"}) {
    if (const char* value = std::getenv(name); value != nullptr) own[name] = value;
  }
  return own;
}

void use_account(StartWorkers& start, const Environment& own) {
  Environment by_job;
  for (const auto& [name, value] : start.env)
    if (set_by_job(start, name)) by_job[name] = value;
  use_account(start.env, own);
  for (auto& [name, value] : by_job) start.env[name] = std::move(value);
}

void use_account(Environment& env, const Environment& own) {
  for (const char* name :
       {"HOME", "LOGNAME", "SHELL", "USER", "MAIL", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}) {
    env.erase(name);
    if (const auto found = own.find(name); found != own.end()) env[name] = found->second;
  }
}

Environment worker_environment(const NodeEnvironment& node, const WorkerEnvironmentInput& input) {
  const StartWorkers& start = node.start;
  const WorkerRanks& ranks = input.ranks;
  const WorkerRanks in_role = ranks.in_role();
  const double cpus = node.role != nullptr ? node.role->cpus_per_worker : start.cpus_per_worker;
  Environment env = common_environment(node, cpus);
  // A worker that shares its node with no other, and claims no cores, may use all of them.
  if (cpus <= 0 && ranks.local_world_size == 1 && !set_by_job(node, "OMP_NUM_THREADS") &&
      !start.env.contains("OMP_NUM_THREADS"))
    env.erase("OMP_NUM_THREADS");
  if (const std::string one = shared_gpu(node, in_role.local_rank); !one.empty())
    env["CUDA_VISIBLE_DEVICES"] = one;
  // As under torchrun, whose agents have a role each: ranks count all workers, local ranks those of
  // the role.
  set(env, "RANK", ranks.rank);
  set(env, "WORLD_SIZE", ranks.world_size);
  set(env, "LOCAL_RANK", in_role.local_rank);
  set(env, "LOCAL_WORLD_SIZE", in_role.local_world_size);
  set(env, "GROUP_RANK", ranks.node_rank);
  set(env, "GROUP_WORLD_SIZE", ranks.node_count);
  if (!set_by_job(node, "ROLE_NAME"))
    set(env, "ROLE_NAME", node.role != nullptr ? node.role->name : start.role);
  set(env, "ROLE_RANK", in_role.rank);
  set(env, "ROLE_WORLD_SIZE", in_role.world_size);
  set(env, "NODE_RANK", ranks.node_rank);
  set(env, "NNODES", ranks.node_count);
  set(env, "NPROC_PER_NODE", in_role.local_world_size);
  if (start.run.master_port != 0) {
    set(env, "MASTER_ADDR", start.run.master_addr);
    set(env, "MASTER_PORT", start.run.master_port);
  }
  set(env, "TORCHELASTIC_RESTART_COUNT", start.restart_count);
  set(env, "TORCHELASTIC_MAX_RESTARTS", start.max_restarts);
  if (!set_by_job(start, "TORCHELASTIC_RUN_ID")) set(env, "TORCHELASTIC_RUN_ID", start.run.run_id);
  set(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
  set(env, "TORCHELASTIC_ERROR_FILE", input.error_file);
  for (const auto& [name, value] : input.flight_variables) set_default(env, name.c_str(), value);
  // Without this, Gloo offers its peers what the host's own name resolves to, on many systems a
  // loopback address (Debian writes 127.0.1.1 into /etc/hosts), and they connect to themselves.
  // NCCL leaves loopback out and may use several interfaces.
  if (ranks.node_count > 1 && !input.network_interface.empty()) {
    set_default(env, "GLOO_SOCKET_IFNAME", input.network_interface);
    set_default(env, "TP_SOCKET_IFNAME", input.network_interface);
  }
  set(env, "TRAINRUN_NODE_RANK", ranks.node_rank);
  if (start.run.keeps_workers) set(env, "TRAINRUN_KEEPS_WORKERS", 1);
  set(env, "TRAINRUN_CHECKPOINT_DIR", input.checkpoint_dir);
  const auto gpus = static_cast<int>(node.gpus.size());
  for (auto& [name, value] :
       backend_environment({.profile = start.backend,
       .peers = start.peers,
       .ranks = ranks,
       .gpus_per_worker = gpus / std::max(1, ranks.local_world_size),
       .pmi_fd = input.pmi_fd,
       .node_sizes = start.node_sizes,
       .network_interface = ranks.node_count > 1 ? input.network_interface : ""}))
    if (!set_by_job(node, name)) env[name] = value;
  return env;
}

std::string spec_json(const JobContext& run) {
  const auto or_empty = [](const std::string& json) { return json.empty() ? "{}" : json; };
  return fmt::format(R"({{"train_loop_config": {}, "metadata": {}, "datasets": {}}})",
                     or_empty(run.config_json), or_empty(run.metadata_json),
                     or_empty(run.datasets_json));
}

Environment standby_environment(const NodeEnvironment& node, int number) {
  Environment env = common_environment(node, node.start.cpus_per_worker);
  set(env, "TRAINRUN_STANDBY", number);
  return env;
}

Environment validation_environment(const NodeEnvironment& node, const ValidationFiles& files,
                                   bool use_gpu) {
  Environment env = common_environment(node, node.start.cpus_per_worker);
  env.erase("TRAINRUN_SOCKET");
  for (const char* name : kRankVariables) env.erase(name);
  if (!use_gpu) env["CUDA_VISIBLE_DEVICES"] = "";
  set(env, "TRAINRUN_VALIDATE", 1);
  set(env, "TRAINRUN_CHECKPOINT_DIR", files.checkpoint_dir);
  set(env, "TRAINRUN_RESULT_FILE", files.result);
  set(env, "TRAINRUN_SPEC", files.spec);
  set(env, "TORCHELASTIC_ERROR_FILE", files.error);
  return env;
}

Environment setup_environment(const NodeEnvironment& node) {
  Environment env = common_environment(node, node.start.cpus_per_worker);
  env.erase("TRAINRUN_SOCKET");
  for (const char* rank_variable : kRankVariables) env.erase(rank_variable);
  return env;
}

Environment ingest_environment(const NodeEnvironment& node, const std::string& name, double cpus) {
  Environment env = common_environment(node, cpus);
  for (const char* rank_variable : kRankVariables) env.erase(rank_variable);
  env["CUDA_VISIBLE_DEVICES"] = "";
  set(env, "TRAINRUN_INGEST", name);
  return env;
}

Environment not_in(Environment env, const Environment& known) {
  std::erase_if(env, [&](const auto& variable) {
    const auto found = known.find(variable.first);
    return found != known.end() && found->second == variable.second;
  });
  return env;
}

}  // namespace train
