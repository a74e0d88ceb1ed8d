#include "launcher/cluster/run/run_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <filesystem>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/code/code_shipment.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/cluster/links/worker_count.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/cluster/run/kept_run.h"
#include "launcher/cluster/run/run_driver.h"
#include "launcher/cluster/run/run_log.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/cluster/run/slurm_commands.h"
#include "launcher/cluster/run/slurm_job.h"
#include "launcher/core/peer_ports.h"
#include "launcher/core/start_watch.h"
#include "launcher/report/summary.h"
#include "launcher/spec/secrets.h"
#include "lib/base/exit_code.h"
#include "lib/base/leave.h"
#include "lib/base/open_files.h"
#include "lib/base/print.h"

namespace train {
namespace {

int refuse(const RunOptions& options, const Error& error, int code) {
  print_error("train-run", error);
  const std::string end = refusal_event(code, error);
  if (options.output == OutputMode::Json) print_json(end);
  if (options.driver_fd >= 0) tell_driver(options.driver_fd, end + "\n");
  return code;
}

void say(const std::string& text) { print_err("train-run: {}\n", text); }

/// The Slurm job that we are in, and the step with our daemons.
struct InSlurm {
  std::optional<SlurmAllocation> job;
  std::optional<SlurmStep> step;
};

Result<TlsFiles> read_tls(const JobSpec& spec, const InSlurm& slurm) {
  if (slurm.step) return TlsFiles::of_token(slurm.step->token(), CertificateRole::Launcher);
  return TlsFiles::read({spec.cluster.token_file, spec.cluster.tls}, CertificateRole::Launcher);
}

/// End the step. If the run asks for that, have Slurm end this job and start it again: that ends
/// us, too, so it comes last.
int leave_slurm(const RunOptions& options, InSlurm& slurm, int code) {
  if (slurm.step) slurm.step->close();
  if (code != exit_code::kRequeue || !options.requeue || !slurm.job) return code;
  if (const auto asked = requeue(slurm.job->job_id); !asked)
    say("warning: the job is not requeued: " + asked.error().describe());
  return code;
}

/// Return the job with the nodes that its hosts file or its name lists now; wait until it lists
/// any.
Result<RunOptions> with_nodes_found(RunOptions options) {
  const JobSpec& spec = options.parsed.spec;
  const Duration given = spec.run_config.failure_config.start_timeout;
  TRY(options.parsed.spec.cluster.nodes,
      wait_for_node_source(spec.cluster, given > Duration{0} ? given : kStartTimeout, say));
  return options;
}

/// Put a number in the place of `num_workers: auto`. The nodes are not the spec's if they were
/// found.
Result<Unit> settle_workers(RunOptions& options, const TlsFiles& tls, bool nodes_found) {
  const JobSpec& spec = options.parsed.spec;
  if (!spec.scaling_config.num_workers.automatic) return Unit{};
  std::vector<NodeCapacity> nodes;
  std::vector<std::string> left_out;
  if (spec.cluster.nodes.empty()) {
    nodes.push_back(options.this_node());
  } else {
    TRY(nodes, offers_of(spec.cluster, tls, options.build, left_out));
  }
  TRY(const int count, count_workers(spec.scaling_config, nodes));
  if (auto few = check_peers(spec, count); !few)
    return std::move(few).error().with_context(fmt::format("num_workers: auto is {} here", count));
  for (const std::string& node : left_out)
    say(fmt::format("warning: {}: num_workers: auto does not count it", node));
  std::vector<std::string>& cluster_nodes = options.parsed.spec.cluster.nodes;
  std::vector<std::string> found;
  if (nodes_found) found.swap(cluster_nodes);
  set_workers(options.parsed, count);
  if (nodes_found) found.swap(cluster_nodes);
  return Unit{};
}

/// Return whether this machine has the run's folder, so that this is not the run's first launcher.
bool has_begun(const RunOptions& options) {
  if (options.restarted) return true;
  const RunConfig& config = options.parsed.spec.run_config;
  std::error_code ec;
  return !options.unique_name &&
         std::filesystem::exists(RunFolder(run_path(config.storage_path, config.name)).journal(),
                                 ec);
}

/// Take the workers that have stayed after an earlier run, if the options name one. Tell the driver
/// at once if they cannot be used: they are in the way of new ones until it lets them go.
std::optional<KeptRun> workers_for(const RunOptions& options) {
  if (options.workers_of.empty()) return std::nullopt;
  const JobSpec& spec = options.parsed.spec;
  const RunFolder before(options.workers_of);
  auto kept = read_kept_run(before, spec);
  if (kept) {
    const auto taken =
        take_workers(before, run_path(spec.run_config.storage_path, spec.run_config.name));
    if (taken) return std::move(*kept);
    kept = taken.error();
  }
  say(fmt::format("note: the workers of {} are not used: {}", options.workers_of,
                  kept.error().describe()));
  if (options.driver_fd >= 0)
    tell_driver(options.driver_fd, workers_not_used_event(kept.error()) + "\n");
  return std::nullopt;
}

int run_with(RunOptions options, InSlurm& slurm) {
  const JobSpec& spec = options.parsed.spec;
  auto tls = read_tls(spec, slurm);
  if (!tls) return refuse(options, tls.error(), exit_code::kPermission);
  if (const std::string soon = tls->soon_over(std::time(nullptr)); !soon.empty())
    print_err("train-run: {}\n", soon);
  if (const auto safe = check_nodes(spec.cluster.nodes, tls->context().has_value()); !safe)
    return refuse(options, safe.error(), exit_code::kPermission);
  if (const auto settled = settle_workers(options, *tls, spec.cluster.finds_nodes() || slurm.step);
      !settled)
    return refuse(
        options, settled.error(),
        settled.error().code == Errc::InvalidSpec ? exit_code::kBadSpec : exit_code::kUnavailable);
  auto env = spec::worker_environment(spec, options.environment);
  if (!env) return refuse(options, env.error(), exit_code::kBadSpec);
  std::optional<MlflowOptions> mlflow;
  const auto& callbacks = spec.run_config.callbacks;
  if (std::find(callbacks.begin(), callbacks.end(), "mlflow") != callbacks.end()) {
    auto read = mlflow_options(*env);
    if (!read) return refuse(options, read.error(), exit_code::kBadSpec);
    mlflow = std::move(*read);
  }
  auto notify = notify_targets(spec.run_config.notify, options.environment);
  if (!notify) return refuse(options, notify.error(), exit_code::kBadSpec);
  if (!options.wait_for_debugger.empty())
    (*env)["TRAINRUN_WAIT_FOR_DEBUGGER"] = options.wait_for_debugger;
  if (const auto fits = check_start_size(spec, *env); !fits)
    return refuse(options, fits.error(), exit_code::kBadSpec);
  // Of a run that has begun, workers may live: they are not given up for files that changed since.
  if (!has_begun(options)) {
    if (const auto can_ship = CodeShipment::check(spec); !can_ship)
      return refuse(options, can_ship.error(), exit_code::kBadSpec);
  }
  if (options.keeps_workers) {
    const std::string why = why_none_stay(spec, slurm.step.has_value());
    if (!why.empty()) say("note: no workers stay after this run: " + why);
    options.keeps_workers = why.empty();
  }
  const std::optional<KeptRun> kept = workers_for(options);
  // The private traind starts while the run's folder is being made and synced.
  auto found = private_daemon_of(options, /*must=*/false, kept ? options.workers_of : "");
  if (!found) return refuse(options, found.error(), exit_code::kUnavailable);
  std::optional<PrivateDaemon> daemon = std::move(*found);
  auto record = RunRecord::open(spec, {.unique_name = options.unique_name,
                                       .force = options.force,
                                       .restarted = options.restarted,
                                       .changed = !options.changed_keys.empty(),
                                       .keeps_workers = options.keeps_workers,
                                       .kept = kept,
                                       .new_daemons = slurm.step.has_value(),
                                       .build = options.build,
                                       .say = say});
  if (!record) {
    if (daemon) daemon->stop();
    return refuse(options, record.error(),
                  exit_code_of(Ending{Outcome::Refused, {}, record.error().code}));
  }
  const RunFolder folder = (*record)->folder();
  if (daemon) remember_daemon(*daemon, folder);
  if (options.detached) {
    if (const auto begun = begin_detached(folder); !begun)
      return refuse(options, begun.error(), exit_code::kIo);
  } else {
    end_detached(folder);
  }
  auto log = open_run_log(folder, (*record)->name(), spec.run_config.log_level, options.log_format);
  if (!log) print_err("train-run: warning: {}; continuing without a log\n", log.error().describe());
  if (slurm.step) slurm.step->keep_log(folder.path() + "/traind.log");
  RunDriver driver(options, std::move(*record), std::move(daemon), std::move(*tls), std::move(*env),
                   std::move(*notify), std::move(mlflow), log ? std::move(*log) : Log());
  if (slurm.job) driver.is_in_slurm(*slurm.job, slurm.step ? &*slurm.step : nullptr);
  if (const auto opened = driver.open_sinks(); !opened)
    return refuse(options, opened.error(), exit_code::kIo);
  const int code = leave_slurm(options, slurm, driver.run());
  leave_without_unwinding(finish_output(code));  // all that matters is on disk
}

}  // namespace

int run_job(const RunOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_open_files();  // a rank has two logs, a node has a link
  const JobSpec& spec = options.parsed.spec;
  ::umask(static_cast<mode_t>(spec.run_config.umask.bits));  // for all that is made from here on
  InSlurm slurm;
  auto job = slurm_job_of(spec, options.environment);
  if (!job) return refuse(options, job.error(), exit_code::kUnavailable);
  slurm.job = std::move(*job);
  const bool has_daemon = !options.private_daemon.empty() || !options.shared_daemon.empty();
  if (spec.cluster.finds_nodes()) {
    auto found = with_nodes_found(options);
    if (!found) return refuse(options, found.error(), exit_code::kUnavailable);
    return run_with(std::move(*found), slurm);
  }
  if (!slurm.job || has_daemon || !starts_daemons(spec, *slurm.job))
    return run_with(options, slurm);
  auto started = start_daemons(*slurm.job, options.environment, say);
  if (!started)
    return refuse(options, started.error(),
                  started.error().code == Errc::InvalidArgument ? exit_code::kUsage
                                                                : exit_code::kUnavailable);
  RunOptions with_nodes = options;
  with_nodes.parsed.spec.cluster.nodes = started->daemons();
  slurm.step.emplace(std::move(*started));
  const int code = run_with(with_nodes, slurm);  // it returns only if the run is refused
  return leave_slurm(options, slurm, code);
}

}  // namespace train
