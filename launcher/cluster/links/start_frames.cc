#include "launcher/cluster/links/start_frames.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>

#include "launcher/spec/job_spec_parser.h"
#include "launcher/spec/secrets.h"
#include "lib/base/host.h"
#include "lib/base/secrets.h"
#include "lib/storage/object_store.h"

namespace train {
namespace {

std::int64_t to_ms(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration).count();
}

/// Return the part that is the same for all processes of the run.
StartWorkers program_of(const JobSpec& spec, const RunRecord& record,
                        const std::map<std::string, std::string>& env) {
  StartWorkers message;
  message.run_id = record.run_id();
  message.run_name = record.name();
  message.command = spec.command;
  message.working_dir = spec.working_dir;
  message.env = env;
  for (const auto& [name, value] : spec.env) message.job_env.push_back(name);
  message.cpus_per_worker = spec.scaling_config.resources_per_worker.cpu;
  return message;
}

}  // namespace

Result<std::map<std::string, std::string>> worker_environment_base(
    const JobSpec& spec, const std::map<std::string, std::string>& submitter) {
  TRY(auto job_env, spec::resolve_environment(spec, submitter));
  std::map<std::string, std::string> env = submitter;
  for (auto it = env.begin(); it != env.end();) {
    // The cluster's token and our own settings are the launcher's. The ranks of an outer torchrun
    // or train-run are not ours.
    const bool ours = it->first.starts_with("TRAINRUN_") || it->first.starts_with("TORCHELASTIC_");
    it = ours ? env.erase(it) : std::next(it);
  }
  for (auto& [name, value] : job_env) env[name] = std::move(value);
  learn_secrets(env);
  return env;
}

PrepareAttempt prepare_message(const JobSpec& spec, const RunRecord& record, const Prepare& action,
                               const std::string& bind_address,
                               const std::map<std::string, std::string>& env) {
  PrepareAttempt message;
  message.node_rank = action.placed.node_rank.value;
  message.local_world_size = action.placed.local_world_size;
  message.per_worker = spec.scaling_config.resources_per_worker;
  message.limits = {.umask = static_cast<std::uint32_t>(spec.run_config.umask.bits),
                    .rlimits = spec.run_config.rlimits,
                    .keep_capabilities = spec.run_config.keep_capabilities,
                    .cpu_limit = spec.scaling_config.cpu_limit,
                    .pids_max = static_cast<std::uint64_t>(spec.scaling_config.pids_per_worker)};
  message.bind_master = action.bind_master;
  message.bind_address = bind_address;
  message.generation = record.generation().value;
  message.run_dir = record.place();
  if (is_object_url(record.place()) || is_object_url(spec.resume_from_checkpoint))
    message.storage_env = store_environment(env);
  message.stop_grace_ms = to_ms(spec.run_config.failure_config.stop_grace);
  message.upload_timeout_ms = to_ms(spec.run_config.checkpoint_config.upload_timeout);
  message.replicas = spec.run_config.checkpoint_config.replicas;
  message.standby = action.standby;
  message.storage_marker = record.storage_marker();
  message.may_relay = spec.run_config.shared_storage == SharedStorageNeed::Auto &&
                      !is_object_url(spec.run_config.storage_path);
  return message;
}

StartWorkers standby_message(const JobSpec& spec, const RunRecord& record, int workers,
                             const std::map<std::string, std::string>& env) {
  StartWorkers message = program_of(spec, record, env);
  message.standby = workers;
  return message;
}

StartWorkers start_message(const JobSpec& spec, const RunRecord& record, const Start& action,
                           const std::map<std::string, std::string>& env) {
  StartWorkers message = program_of(spec, record, env);
  message.world_size = action.placement->world_size;
  message.node_count = static_cast<std::int32_t>(action.placement->nodes.size());
  message.master_addr = action.master_addr;
  message.master_port = action.master_port;
  message.restart_count = action.restart_count;
  message.max_restarts = spec.run_config.failure_config.max_failures;
  message.config_json = boost::json::serialize(spec.train_loop_config);
  message.metadata_json = boost::json::serialize(spec.metadata);
  message.datasets_json = boost::json::serialize(datasets_json(spec));
  message.collectives = spec.collectives;
  message.collective_timeout_ms = to_ms(spec.collective_timeout);
  if (action.restore) {
    message.restore_dir = action.restore->path;
    message.restored_epoch = action.restore->epoch;
  }
  return message;
}

Result<Unit> check_start_size(const JobSpec& spec, const std::map<std::string, std::string>& env) {
  std::size_t env_bytes = 0, command_bytes = 0;
  for (const auto& [name, value] : env) env_bytes += name.size() + value.size() + 8;
  for (const std::string& word : spec.command) command_bytes += word.size() + 4;
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
               fmt::format("what workers are started with takes {} bytes, {} of them {}; all of it "
                           "(train_loop_config, metadata, datasets, the environment, command) may "
                           "take {}",
                           all, largest.second, largest.first, kStartBytesMax),
               "put what is large into a file, and its path into the spec"};
}

void set_node(StartWorkers& message, const Start& action) {
  const PlacedNode& placed = action.placed;
  message.node_rank = placed.node_rank.value;
  message.workers.clear();
  for (std::int32_t local = 0; local < placed.local_world_size; ++local)
    message.workers.push_back({placed.first_rank.value + local, local});
}

DaemonLinkOptions link_options(const RunConfig& config, const RunRecord& record,
                               const std::string& build) {
  const FailureConfig& failure = config.failure_config;
  DaemonLinkOptions link{
      .self = {build, "launcher", host_name(), ::getpid(), ""}, .attach = {}, .owner_key = ""};
  link.attach.run_id = record.run_id();
  link.attach.run_name = record.name();
  link.attach.generation = record.generation().value;
  link.owner_key = record.owner_key();
  link.attach.user = config.user.value_or("");
  link.attach.dead_after_ms = to_ms(failure.node_dead_after);
  // A node becomes suspect when the second heartbeat in a row is missing.
  link.attach.heartbeat_ms = std::min<std::int64_t>(1000, to_ms(failure.node_suspect_after) / 3);
  link.attach.orphan_timeout_ms = to_ms(failure.orphan_timeout);
  link.limits = {.suspect_after = failure.node_suspect_after,
                 .dead_after = failure.node_dead_after,
                 .away_limit = std::max(failure.orphan_timeout, failure.node_dead_after),
                 .heartbeat_every = milliseconds(link.attach.heartbeat_ms)};
  link.has_workers = record.start().living.has_value();
  return link;
}

CommitRequest commit_request(const Commit& action, Generation generation,
                             const std::string& created, const Metrics& metrics) {
  CommitRequest request{
      .pending = {generation, action.attempt, CheckpointSeq{action.checkpoint_seq}},
      .number = CheckpointNumber{action.number},
      .world_size = static_cast<int>(action.shards.size()),
      .shards = {},
      .created = created,
      .metrics = metrics,
      .metadata = {}};
  for (const StagedShard& shard : action.shards) {
    request.shards.push_back(shard);
    if (shard.rank == Rank{0} && !shard.metadata_json.empty()) {
      boost::system::error_code ec;
      auto metadata = boost::json::parse(shard.metadata_json, ec);
      if (!ec && metadata.is_object()) request.metadata = std::move(metadata.as_object());
    }
  }
  return request;
}

std::int64_t epoch_of(const Metrics& metrics) {
  for (const auto& [name, value] : metrics) {
    if (name != "epoch") continue;
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
    if (const auto* real = std::get_if<double>(&value)) return static_cast<std::int64_t>(*real);
  }
  return -1;
}

}  // namespace train
