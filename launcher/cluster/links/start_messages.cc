#include "launcher/cluster/links/start_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>

#include "launcher/core/placed_ranks.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/storage/object_store.h"

namespace train {
namespace {

std::int64_t to_ms(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration).count();
}

/// Return the part that is the same for all processes of the run.
StartWorkers program_of(const JobSpec& spec, const RunIdentity& run,
                        const std::map<std::string, std::string>& env) {
  StartWorkers message;
  message.run.run_id = run.run_id;
  message.run.run_name = run.name;
  message.command = spec.command;
  message.working_dir = spec.working_dir;
  message.env = env;
  add_backend_variables(spec, message.env);
  for (const auto& [name, value] : spec.env) message.job_env.push_back(name);
  message.backend = backend_profile(spec);
  message.cpus_per_worker = spec.scaling_config.resources_per_worker.cpu;
  message.role = spec.scaling_config.role;
  message.other_roles = role_programs(spec);
  return message;
}

/// Return what the workers of each other role claim on the node.
std::vector<RoleClaim> role_claims(const JobSpec& spec, const PlacedNode& placed) {
  if (placed.others.empty()) return {};
  std::vector<RoleClaim> claims;
  for (const RoleSpec& role : spec.scaling_config.other_roles)
    claims.push_back({0, role.resources_per_worker});
  for (const PlacedRole& other : placed.others)
    claims.at(static_cast<std::size_t>(other.role) - 1).workers = other.workers;
  return claims;
}

void set_restore(JobContext& context, const Start& action) {
  context.restore_dir = action.restore ? action.restore->path : "";
  context.restored_epoch = action.restore ? action.restore->epoch : -1;
}

}  // namespace

std::vector<RoleProgram> role_programs(const JobSpec& spec) {
  std::vector<RoleProgram> programs;
  for (const RoleSpec& role : spec.scaling_config.other_roles)
    programs.push_back({role.name, role.command, role.env, role.resources_per_worker.cpu});
  return programs;
}

void add_backend_variables(const JobSpec& spec, std::map<std::string, std::string>& env) {
  if (!spec.deterministic) return;
  // cuBLAS reads it when its library is loaded, and LibTorch refuses to compute without it
  // (docs.nvidia.com/cuda/cublas, "Results Reproducibility").
  env.try_emplace("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  env["TRAINRUN_DETERMINISTIC"] = "1";  // sdk/torch/reproducible.cc reads it
}

namespace {

DigestOrder digest_order(const JobSpec& spec, const std::map<std::string, std::string>& env) {
  const auto variable = [&](const char* name) {
    const auto found = env.find(name);
    return found == env.end() ? std::string() : found->second;
  };
  return {.command = spec.command,
          .working_dir = spec.working_dir,
          .path = variable("PATH"),
          .library_path = variable("LD_LIBRARY_PATH")};
}

}  // namespace

BackendProfile backend_profile(const JobSpec& spec) {
  const BackendConfig& config = spec.backend_config;
  BackendProfile profile{.name = std::string(to_text(spec.backend))};
  if (spec.backend == Backend::Mpi) profile.pmi = kPmis[static_cast<std::size_t>(config.pmi)];
  if (spec.backend == Backend::Custom) {
    profile.publish = config.publish;
    profile.on_start = config.on_start;
    profile.on_training_start = config.on_training_start;
    profile.on_shutdown = config.on_shutdown;
    profile.hook_timeout_ms = to_ms(config.hook_timeout);
  }
  return profile;
}

PrepareAttempt prepare_message(const JobSpec& spec, const RunIdentity& run, const Prepare& action,
                               const std::string& bind_address,
                               const std::map<std::string, std::string>& env) {
  PrepareAttempt message;
  message.node_rank = action.placed.node_rank.value;
  message.local_world_size = action.placed.local_world_size;
  message.per_worker = spec.scaling_config.resources_per_worker;
  message.other_roles = role_claims(spec, action.placed);
  message.limits = {.umask = static_cast<std::uint32_t>(spec.run_config.umask.bits),
                    .rlimits = spec.run_config.rlimits,
                    .keep_capabilities = spec.run_config.keep_capabilities,
                    .cpu_limit = spec.scaling_config.cpu_limit,
                    .pids_max = static_cast<std::uint64_t>(spec.scaling_config.pids_per_worker)};
  message.bind_master = action.bind_master;
  message.bind_address = bind_address;
  message.ports_per_worker = action.ports_per_worker;
  message.generation = run.generation.value;
  message.run_dir = run.location;
  if (is_object_url(run.location) || is_object_url(spec.resume_from_checkpoint))
    message.storage_env = store_environment(env);
  message.stop_grace_ms = to_ms(spec.run_config.failure_config.stop_grace);
  message.upload_timeout_ms = to_ms(spec.run_config.checkpoint_config.upload_timeout);
  message.replicas = spec.run_config.checkpoint_config.replicas;
  message.standby = action.standby;
  message.ingest = action.ingest;
  message.gpu_choice = spec.scaling_config.gpus;
  message.refuse_gpus_in_use = spec.scaling_config.gpu_in_use == GpuInUse::Refuse;
  message.bind = to_text(spec.scaling_config.bind);
  if (spec.run_config.check_digests != DigestCheck::Off && !action.standby &&
      action.placed.local_world_size > 0)
    message.digests = digest_order(spec, env);
  message.storage_marker = run.storage_marker;
  message.code = run.code;
  message.may_relay = spec.run_config.shared_storage == SharedStorageNeed::Auto &&
                      !is_object_url(spec.run_config.storage_path);
  return message;
}

ClaimRoom claim_message(const JobSpec& spec, const KeepRoom& action) {
  return {.place = action.place,
          .workers = action.workers,
          .workers_here = action.workers_here,
          .per_worker = spec.scaling_config.resources_per_worker,
          .ingest = action.ingest,
          .gpu_choice = spec.scaling_config.gpus};
}

NodeSetup node_setup(const JobSpec& spec, const RunIdentity& run, const std::string& done_in,
                     const std::map<std::string, std::string>& env) {
  if (spec.per_node_setup.command.empty()) return {};
  StartWorkers program = program_of(spec, run, env);
  return {.command = spec.per_node_setup.command,
          .working_dir = std::move(program.working_dir),
          .env = std::move(program.env),
          .job_env = std::move(program.job_env),
          .run_name = run.name,
          .cpus_per_worker = program.cpus_per_worker,
          .timeout_ms = to_ms(spec.per_node_setup.timeout),
          .done_in = done_in};
}

StartWorkers standby_message(const JobSpec& spec, const RunIdentity& run, int workers,
                             const std::map<std::string, std::string>& env) {
  StartWorkers message = program_of(spec, run, env);
  message.standby = workers;
  return message;
}

StartWorkers start_message(const JobSpec& spec, const RunIdentity& run, const Start& action,
                           const std::map<std::string, std::string>& env) {
  StartWorkers message = program_of(spec, run, env);
  message.restart_count = action.restart_count;
  message.max_restarts = spec.run_config.failure_config.max_failures;
  JobContext& context = message.run;
  context.config_json = boost::json::serialize(spec.train_loop_config);
  context.metadata_json = boost::json::serialize(spec.metadata);
  context.datasets_json = boost::json::serialize(datasets_json(spec));
  context.master_addr = action.master_addr;
  context.master_port = action.master_port;
  message.peers = *action.peers;
  // Each node hears of all others only if it needs that: thousands would hear of thousands.
  if (spec.backend == Backend::Mpi || spec.backend == Backend::Horovod)
    for (const PlacedNode& node : action.placement->nodes)
      message.node_sizes.push_back(node.local_world_size);
  context.collectives = spec.collectives;
  context.collective_timeout_ms = to_ms(spec.collective_timeout);
  context.report_window = run.pace;
  // A process speaks MPI once in its life.
  context.keeps_workers = run.keeps_workers && spec.backend != Backend::Mpi;
  set_restore(context, action);
  return message;
}

Result<Unit> check_start_size(const JobSpec& spec, const std::map<std::string, std::string>& env) {
  std::size_t env_bytes = 0, command_bytes = 0;
  for (const auto& [name, value] : env) env_bytes += name.size() + value.size() + 8;
  for (const auto* command : {&spec.command, &spec.per_node_setup.command})
    for (const std::string& word : *command) command_bytes += word.size() + 4;
  for (const RoleSpec& role : spec.scaling_config.other_roles) {
    for (const std::string& word : role.command) command_bytes += word.size() + 4;
    for (const auto& [name, value] : role.env) env_bytes += name.size() + value.size() + 8;
  }
  const std::array<std::pair<std::string_view, std::size_t>, 5> pieces{
      {{"train_loop_config", boost::json::serialize(spec.train_loop_config).size()},
       {"metadata", boost::json::serialize(spec.metadata).size()},
       {"datasets", boost::json::serialize(datasets_json(spec)).size()},
       {"the environment", env_bytes},
       {"command", command_bytes}}};
  std::size_t all = 0;
  for (const auto& [name, bytes] : pieces) all += bytes;
  if (all <= kStartBytesMax) return Unit{};
  const auto largest =
      *std::max_element(pieces.begin(), pieces.end(),
                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return Error{Errc::InvalidSpec,
               fmt::format("the start-up data of workers takes {} bytes, {} of them for {}; in "
                           "total (train_loop_config, metadata, datasets, the environment, "
                           "command) it may take at most {}",
                           all, largest.second, largest.first, kStartBytesMax),
               "put large data into a file, and its path into the spec"};
}

StartIngest ingest_message(const JobSpec& spec, const KeepIngest& action) {
  const IngestSpec& ingest = spec.datasets.at(action.dataset).ingest;
  return {.dataset = action.dataset,
          .slot = action.slot,
          .claim = ingest.resources_per_worker,
          .timeout_ms = to_ms(ingest.timeout),
          .flight = action.for_others};
}

void set_node(StartWorkers& message, const Start& action) {
  message.workers = ranks_on(action.placed, *action.placement);
  set_restore(message.run, action);  // a node without ranks has none
}

}  // namespace train
