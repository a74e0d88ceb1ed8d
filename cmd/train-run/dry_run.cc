#include "cmd/train-run/dry_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "cmd/train-run/this_node.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "launcher/cluster/code/code_listing.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/cluster/links/worker_count.h"
#include "launcher/core/peer_ports.h"
#include "launcher/core/placed_ranks.h"
#include "launcher/core/placement.h"
#include "launcher/spec/secrets.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/base/size_text.h"

namespace train {
namespace {

std::vector<NodeCapacity> nodes_of(const JobSpec& spec) {
  std::vector<NodeCapacity> nodes;
  if (spec.cluster.nodes.empty()) return {this_node()};
  // Only the nodes know what they have: assume that each has room for its even share.
  const int workers = spec.scaling_config.num_workers.max;
  const int count = static_cast<int>(spec.cluster.nodes.size());
  const bool on_one = spec.scaling_config.placement_strategy == PlacementStrategy::StrictPack;
  const int even = on_one ? workers : (workers + count - 1) / count;
  const int share = std::max(even, spec.scaling_config.workers_per_node);
  Resources capacity = spec.scaling_config.resources_per_worker;
  capacity.cpu *= share;
  capacity.gpu *= share;
  capacity.memory_bytes *= static_cast<std::uint64_t>(share);
  for (auto& [name, value] : capacity.custom) value *= share;
  for (const RoleSpec& role : spec.scaling_config.other_roles) {
    const int most = on_one ? role.workers : (role.workers + count - 1) / count;
    capacity.cpu += most * role.resources_per_worker.cpu;
    capacity.gpu += most * role.resources_per_worker.gpu;
    capacity.memory_bytes +=
        static_cast<std::uint64_t>(most) * role.resources_per_worker.memory_bytes;
    for (const auto& [name, value] : role.resources_per_worker.custom)
      capacity.custom[name] += most * value;
  }
  for (const IngestNeed& need : ingest_needs(spec)) {
    const int most = (need.spec.workers.max + count - 1) / count;
    capacity.cpu += most * need.spec.resources_per_worker.cpu;
    capacity.memory_bytes +=
        static_cast<std::uint64_t>(most) * need.spec.resources_per_worker.memory_bytes;
  }
  for (const std::string& endpoint : spec.cluster.nodes)
    nodes.push_back({NodeId{static_cast<int>(nodes.size())}, endpoint, capacity, capacity});
  return nodes;
}

using Environment = std::map<std::string, std::string>;

// Return what a supervisor would set, from the function that it uses. Placeholders stand for what
// exists only after the start.
std::map<int, Environment> environments_of(const JobSpec& spec, const Placement& placement,
                                           const std::string& master_addr,
                                           const std::vector<std::string>& peers) {
  std::map<int, Environment> by_rank;
  for (const PlacedNode& node : placement.nodes) {
    StartWorkers start;
    start.run.run_id = spec.run_config.name + "-(id)";
    start.run.run_name = spec.run_config.name;
    start.run.master_addr = master_addr;
    start.run.master_port = spec.backend != Backend::None ? 1 : 0;
    start.backend = backend_profile(spec);
    start.peers = peers;
    for (const PlacedNode& placed : placement.nodes)
      start.node_sizes.push_back(placed.local_world_size);
    start.env = spec.env;
    add_backend_variables(spec, start.env);
    for (const auto& [name, value] : spec.env) start.job_env.push_back(name);
    start.max_restarts = spec.run_config.failure_config.max_failures;
    start.cpus_per_worker = spec.scaling_config.resources_per_worker.cpu;
    start.role = spec.scaling_config.role;
    start.other_roles = role_programs(spec);
    for (const WorkerRanks& worker : ranks_on(node, placement)) {
      const auto other = static_cast<std::size_t>(worker.role) - 1;
      NodeEnvironment common{start, Attempt{0}, "(socket)", {}};
      if (!worker.trains()) common.role = &start.other_roles[other];
      Environment env = worker_environment(common, {worker, "(folder)", "(file)", ""});
      const ScalingConfig& scaling = spec.scaling_config;
      if (worker.trains() ? scaling.resources_per_worker.gpu > 0
                          : scaling.other_roles[other].resources_per_worker.gpu > 0)
        env["CUDA_VISIBLE_DEVICES"] = "(granted at start)";
      if (start.run.master_port != 0) env["MASTER_PORT"] = "(bound at start)";
      by_rank[worker.rank] = std::move(env);
    }
  }
  return by_rank;
}

bool same_in_all(const std::map<int, Environment>& by_rank, const std::string& name,
                 const std::string& value) {
  return std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& rank) {
    const auto found = rank.second.find(name);
    return found != rank.second.end() && found->second == value;
  });
}

void print_environments(const std::map<int, Environment>& by_rank) {
  print_out("environment, in addition to the caller's:\n  every rank:\n");
  for (const auto& [name, value] : by_rank.begin()->second) {
    if (same_in_all(by_rank, name, value)) print_out("    {}={}\n", name, value);
  }
  for (const auto& [rank, env] : by_rank) {
    std::string line;
    for (const auto& [name, value] : env) {
      if (!same_in_all(by_rank, name, value)) line += fmt::format(" {}={}", name, value);
    }
    if (!line.empty()) print_out("  rank {}:{}\n", rank, line);
  }
}

/// Say which files are shipped, by size.
Result<Unit> print_code(const JobSpec& spec) {
  constexpr std::size_t kShown = 20;
  TRY(CodeListing code, list_code(spec));
  print_out("ship:      {} {}, {}\n", code.files.size(), code.files.size() == 1 ? "file" : "files",
            size_text(code.bytes));
  std::stable_sort(code.files.begin(), code.files.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (std::size_t i = 0; i < std::min(code.files.size(), kShown); ++i)
    print_out("  {:>10}  {}\n", size_text(code.files[i].bytes), code.files[i].path);
  if (code.files.size() > kShown) print_out("  … and {} more\n", code.files.size() - kShown);
  for (const std::string& warning : code.warnings) print_err("train-run: warning: {}\n", warning);
  return Unit{};
}

}  // namespace

int dry_run(const ParsedSpec& parsed) {
  JobSpec spec = spec::shown_spec(parsed.spec);
  const bool asked = spec.cluster.nodes.empty();
  if (!asked) {  // only the nodes know which labels and GPUs they have
    spec.scaling_config.label_selector.clear();
    for (RoleSpec& role : spec.scaling_config.other_roles) role.label_selector.clear();
    spec.scaling_config.gpus.clear();
  }
  const std::vector<NodeCapacity> nodes = nodes_of(spec);
  if (WorkerCount& count = spec.scaling_config.num_workers; count.automatic) {
    const auto found = asked ? count_workers(spec.scaling_config, nodes) : Result<int>(1);
    if (!found) {
      print_error("train-run", found.error());
      return exit_code::kUnavailable;
    }
    if (!asked) print_out("workers:   auto: the nodes were not asked, so 1 is shown\n");
    count = {*found, *found};
  }
  const std::vector<IngestNeed> ingest = ingest_needs(spec);
  const Placement placement = place(spec.scaling_config, nodes, nodes.size(), {}, ingest);
  if (placement.world_size == 0) {
    print_err("train-run: error: {}\n", placement.reason);
    return exit_code::kUnavailable;
  }
  print_out("run:       {}\nfolder:    {}/{}\ncommand:   {}\nin:        {}\n", spec.run_config.name,
            spec.run_config.storage_path, spec.run_config.name,
            fmt::format("{}", fmt::join(spec.command, " ")), spec.working_dir);
  if (spec.ship.on) {
    if (const auto listed = print_code(spec); !listed) {
      print_error("train-run", listed.error());
      return exit_code::kBadSpec;
    }
  }
  const FailureConfig& failure = spec.run_config.failure_config;
  const auto budget = [](int allowed) {
    return allowed == kUnlimited ? std::string("unlimited") : std::to_string(allowed);
  };
  print_out("failures:  {} worker failures, {} at start, {} preemptions\n",
            budget(failure.max_failures), budget(failure.max_start_failures),
            budget(failure.max_preemptions));
  for (const RoleSpec& role : spec.scaling_config.other_roles)
    print_out("role:      {}, {} {}: {}\n", role.name, role.workers,
              role.workers == 1 ? "worker" : "workers",
              fmt::format("{}", fmt::join(role.command, " ")));
  print_out("placement: {} workers on {} {}{}\n", workers_of_all_roles(placement),
            placement.nodes.size(), placement.nodes.size() == 1 ? "node" : "nodes",
            spec.cluster.nodes.empty()
                ? ""
                : " (if each has enough free resources; the daemons were not asked)");
  const std::string master =
      placement.nodes.size() == 1 ? "127.0.0.1" : nodes[placement.nodes.front().node.value].name;
  for (const PlacedNode& node : placement.nodes) {
    const std::string& name = nodes[node.node.value].name;
    if (node.local_world_size > 0)
      print_out("  {}: ranks {} to {}\n", name, node.first_rank.value,
                node.first_rank.value + node.local_world_size - 1);
    for (const PlacedRole& other : node.others)
      print_out("  {}: ranks {} to {} ({})\n", name, other.first_rank.value,
                other.first_rank.value + other.workers - 1,
                spec.scaling_config.other_roles[static_cast<std::size_t>(other.role) - 1].name);
  }
  for (const IngestNeed& need : ingest) print_out("ingest:    {}\n", describe(need));
  std::vector<std::string> peers;  // as PeerPorts makes them, with a word in place of each port
  for (const PlacedNode& node : placement.nodes) {
    const std::string& name = placement.nodes.size() == 1 ? master : nodes[node.node.value].name;
    const int count = node.local_world_size * ports_per_worker(spec);
    for (int i = 0; i < count; ++i) peers.push_back(name + ":(bound at start)");
  }
  print_environments(environments_of(spec, placement, master, peers));
  return 0;
}

}  // namespace train
