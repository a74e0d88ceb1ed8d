// torchrun: runs what torchrun's own command line says.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "daemon/devices/node_inventory.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/core/slurm_allocation.h"
#include "launcher/torchrun/arguments.h"
#include "launcher/torchrun/launch.h"
#include "lib/base/print.h"

namespace train {
namespace {

using Environment = std::map<std::string, std::string>;

int wrong(const Error& error) {
  print_error(error);
  return exit_code::kUsage;
}

/// Return where the run shall run, as the options of `run` say it. --standalone: on this machine.
JobOptions job_of(const TorchrunArguments& arguments, const Environment& environment) {
  JobOptions job;
  const auto variable = [&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end() || arguments.flag("standalone")) return std::nullopt;
    return found->second;
  };
  const auto option = [&](const char* name) -> std::optional<std::string> {
    return arguments.given(name) ? std::optional(arguments.text(name)) : std::nullopt;
  };
  const bool named = arguments.given("hosts") || arguments.given("hosts-file");
  job.hosts = named ? option("hosts") : variable("TRAINRUN_HOSTS");
  job.hosts_file = named ? option("hosts-file") : variable("TRAINRUN_HOSTS_FILE");
  if (!named) job.ssh = variable("TRAINRUN_SSH");
  const bool secured = arguments.given("token-file") || arguments.given("tls");
  job.token_file = (secured ? option("token-file") : variable("TRAINRUN_TOKEN_FILE")).value_or("");
  job.tls = (secured ? option("tls") : variable("TRAINRUN_TLS")).value_or("");
  job.flags.name = option("name");
  job.flags.storage = option("storage");
  job.overrides = arguments.overrides();
  return job;
}

/// Return how many daemons the options, or TRAINRUN_CLUSTER, name now.
Result<std::size_t> count_hosts(const JobOptions& job, const TorchrunArguments& arguments,
                                const Environment& environment) {
  TRY(const auto hosts, named_hosts(job));
  if (hosts) return hosts->size();
  if (job.hosts_file) {
    ClusterConfig cluster;
    cluster.hosts_file = *job.hosts_file;
    TRY(const NodeNames nodes, read_node_source(cluster));
    return nodes.size();
  }
  const auto cluster = environment.find("TRAINRUN_CLUSTER");
  if (cluster == environment.end() || cluster->second.empty() || arguments.flag("standalone"))
    return std::size_t{0};
  return 1 +
         static_cast<std::size_t>(std::count(cluster->second.begin(), cluster->second.end(), ','));
}

/// Return how many nodes the Slurm job has that we are in, if the options ask for several:
/// train-run starts their daemons.
std::size_t count_slurm_nodes(const TorchrunArguments& arguments, const Environment& environment) {
  const std::string nnodes = arguments.text("nnodes");
  if (arguments.flag("standalone") || nnodes == "1" || nnodes == "1:1") return 0;
  const auto allocation = read_slurm_allocation(environment);
  return allocation && *allocation ? (*allocation)->nodes.size() : 0;
}

}  // namespace

int torchrun_command(const std::vector<std::string>& words) {
  const Environment environment = submitters_environment();
  const auto arguments = TorchrunArguments::parse(words, environment);
  if (!arguments) return wrong(arguments.error());
  if (arguments->help()) {
    print_out("{}", Lines{torchrun_help()});
    return 0;
  }
  JobOptions job = job_of(*arguments, environment);
  if (arguments->flag("standalone") && (job.hosts || job.hosts_file))
    return wrong({Errc::InvalidArgument,
                  "torchrun: --standalone is given, and --hosts or --hosts-file", "remove one"});
  const auto hosts = count_hosts(job, *arguments, environment);
  if (!hosts) return wrong(hosts.error());
  const Resources here = read_node_inventory().amounts;
  std::size_t count = *hosts;
  if (count == 0) {
    count = count_slurm_nodes(*arguments, environment);
    job.no_slurm = count == 0 && environment.contains("SLURM_JOB_ID");
  }
  const auto launch = torchrun_launch(
      *arguments, {.cpus = static_cast<int>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN))),
                   .gpus = static_cast<int>(here.gpu),
                   .hosts = count,
                   .environment = environment});
  if (!launch) return wrong(launch.error());
  for (const std::string& note : launch->notes) print_err("train-run: note: {}\n", note);
  job.implied = launch->overrides;
  job.arguments = launch->command;
  job.program = launch->program;
  if (!job.flags.storage) job.flags.storage = launch->storage;
  RunCommand run;
  run.dry_run = arguments->flag("dry-run");
  run.print_config = arguments->flag("print-config");
  run.detach = arguments->flag("detach");
  run.separate_streams = true;
  run.worker_output = {.prefix = launch->prefix,
                       .local_ranks = launch->local_ranks,
                       .redirects = launch->redirects,
                       .tee = launch->tee,
                       .lines_max = 0,
                       .no_fold = true};
  return run_command(job, run);
}

}  // namespace train
