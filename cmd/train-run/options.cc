#include "cmd/train-run/options.h"

#include <algorithm>
#include <set>

#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/core/report_pace.h"
#include "launcher/report/log_printer.h"

namespace train {

namespace {

void check_job_is_given(const JobOptions& job) {
  if (!job.path.empty()) return;
  const bool set = std::any_of(job.overrides.begin(), job.overrides.end(),
                               [](const auto& text) { return text.starts_with("command="); });
  if (set && !job.arguments) return;
  if (!job.arguments) throw CLI::RequiredError("A job's YAML file, or -- and a program,");
  if (job.arguments->empty()) throw CLI::RequiredError("A program after --");
}

void add_flags(CLI::App* command, JobFlags& flags) {
  command->add_option(
      "-n,--num-workers", flags.num_workers,
      "Workers: a number, MIN:MAX, or 0: run the program alone (scaling_config.num_workers)");
  command->add_option("--gpus", flags.gpus, "GPUs of each worker; 0: none");
  command->add_option("--cpus", flags.cpus,
                      "Cores that each worker claims (default 1; 0: claim none)");
  command->add_option("--memory", flags.memory, "Memory that each worker claims, such as 16GiB");
  command->add_option("--max-failures", flags.max_failures,
                      "How many failures the run survives (default 0; -1: any number)");
  command->add_option("--priority", flags.priority,
                      "Whose turn it is where runs wait for the same nodes: a higher one goes "
                      "first (default 0)");
  command->add_option("--name", flags.name, "The run's name");
  command->add_option("--storage", flags.storage,
                      "The folder of runs, or its URL (default ~/train_results)");
}

}  // namespace

void add_cluster_options(CLI::App* command, JobOptions& job) {
  command
      ->add_option("--set", job.overrides,
                   "KEY.PATH=VALUE: override a value of the spec; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--hosts", job.hosts,
                   "Daemons to use, HOST:PORT,HOST:PORT (instead of cluster.nodes)")
      ->envname("TRAINRUN_HOSTS");
  command
      ->add_option("--hosts-file", job.hosts_file,
                   "A file with a daemon HOST[:PORT] on each line, which is read again while the "
                   "run goes on (instead of cluster.hosts_file)")
      ->envname("TRAINRUN_HOSTS_FILE");
  command
      ->add_option("--ssh", job.ssh,
                   "Hosts to reach by ssh, USER@HOST,HOST; @FILE: a list of them; @job: those of "
                   "this job of PBS or LSF (in place of --hosts)")
      ->envname("TRAINRUN_SSH");
  command
      ->add_option("--token-file", job.token_file,
                   "The cluster's shared secret (instead of cluster.token_file)")
      ->envname("TRAINRUN_TOKEN_FILE");
  command
      ->add_option("--tls", job.tls,
                   "The folder of your certificate, in place of a token (instead of cluster.tls)")
      ->envname("TRAINRUN_TLS");
}

void add_job_options(CLI::App* command, JobOptions& job) {
  command
      ->add_option("job", job.path,
                   "The job's YAML file. Words after -- follow its command; without a file, they "
                   "are the program, and options say the rest: train-run -n 4 -- ./train --lr 0.1")
      ->option_text("[-- PROGRAM ARGUMENT...]");
  command->callback([&job] { check_job_is_given(job); });
  add_flags(command, job.flags);
  add_cluster_options(command, job);
  command->add_flag("--no-slurm", job.no_slurm,
                    "In a Slurm job: do not start daemons on its nodes (cluster.slurm=never)");
}

void add_log_option(CLI::App* command, std::string& format) {
  command
      ->add_option("--log-format", format,
                   "Format of train-run.log in the run's folder: logfmt or json (default logfmt)")
      ->check(CLI::IsMember({"logfmt", "json"}))
      ->envname("TRAINRUN_LOG_FORMAT");
}

void add_fold_option(CLI::App* command, bool& no_fold) {
  command
      ->add_flag("--no-fold", no_fold,
                 "Show identical lines of several ranks one by one, not as one line [0-3]")
      ->envname("TRAINRUN_NO_FOLD");
}

void add_worker_output_options(CLI::App* command, OutputWords& output) {
  command
      ->add_option("--log-line-prefix,--log-line-prefix-template", output.prefix,
                   "What stands before each line of workers' output on the terminal, such as "
                   "'[${rank}]: '; also ${local_rank}, ${node}, ${attempt}, ${run}")
      ->envname("TRAINRUN_LOG_LINE_PREFIX");
  command
      ->add_option("--local-ranks-filter", output.local_ranks,
                   "Show only the output of these local ranks (0,2-3); files keep all")
      ->envname("TRAINRUN_LOCAL_RANKS_FILTER");
  command
      ->add_option("-r,--redirects", output.redirects,
                   "Streams that only the files show, as torchrun has it: 1 stdout, 2 stderr, 3 "
                   "both; or by local rank, 0:1,2:3")
      ->envname("TRAINRUN_REDIRECTS");
  command
      ->add_option("-t,--tee", output.tee,
                   "Streams that the terminal shows all the same (without --redirects: all)")
      ->envname("TRAINRUN_TEE");
  command
      ->add_option("--log-rate", output.lines_max,
                   "Show at most so many lines a second of each rank, and count the rest; 0: all "
                   "(default 1000 on a terminal, else 0)")
      ->check(CLI::Range(0, 1'000'000))
      ->envname("TRAINRUN_LOG_RATE");
  add_fold_option(command, output.no_fold);
}

void add_logs_options(CLI::App* command, LogsCommand& logs) {
  command->add_option("--rank", logs.ranks, "Only these ranks, such as 3 or 0-3,7");
  command->add_option("--attempt", logs.attempt, "This attempt (default: the newest)");
  command->add_option("--stream", logs.stream, "Only stdout (out) or stderr (err)")
      ->check(CLI::IsMember({"out", "err"}));
  command->add_option("--grep", logs.grep,
                      "Only lines that match this regular expression (RE2 syntax; (?i) ignores "
                      "case)");
  command->add_option("--since", logs.since,
                      "Only lines that arrived in the last 5m, 1h30m, …, or since a time, such as "
                      "2026-11-26T10:00");
  command
      ->add_option("--tail", logs.tail,
                   "Only the last N lines of each stream; with --merge, of all together")
      ->check(CLI::Range(0, static_cast<int>(LogPrinter::kTailMax)));
  command->add_flag("-f,--follow", logs.follow, "Keep printing until the run ends");
  command->add_flag("--merge", logs.merge,
                    "Print the lines of all ranks in order of time, identical ones as one");
  add_fold_option(command, logs.no_fold);
}

void add_exec_options(CLI::App* command, ExecCommand& exec) {
  command
      ->add_option("function", exec.function,
                   "The function's name. Or, instead of a function, -- and a command: it runs "
                   "beside each rank, on its node, in its folder and with its environment; "
                   "TRAINRUN_WORKER_PID is the rank's process")
      ->option_text("NAME | -- COMMAND...");
  command->add_option("argument", exec.argument, "Its argument, a JSON value (default null)");
  command->add_option("--rank", exec.ranks, "Only these ranks, such as 3 or 0-3,7 (default all)");
  command->add_option("--timeout", exec.timeout,
                      "How long to wait for the answers, such as 5m (default 30s): a program "
                      "answers in its next report() or poll(), and a command is killed then");
}

void add_profile_options(CLI::App* command, ProfileCommand& profile) {
  command->add_option("--rank", profile.rank, "The rank")
      ->required()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", profile.seconds, "How long (default 5, at most 60)")
      ->check(CLI::Range(0.01, 60.0));
  command
      ->add_option("--kind", profile.kind,
                   "cpu: where it uses a processor (default); wall: where its threads are, also "
                   "where they wait; memory: where it allocates memory, and what is not freed")
      ->check(CLI::IsMember({"cpu", "wall", "memory"}));
  command->add_option("-o", profile.file,
                      "Copy the profile to this file, whose ending says the format: .html, "
                      ".speedscope.json, .folded or .txt");
}

void add_dashboard_options(CLI::App* command, DashboardOptions& dashboard) {
  command->add_option("places", dashboard.places,
                      "Runs, folders with runs, or URLs of runs in object stores (default "
                      "~/train_results)");
  command
      ->add_option("--listen", dashboard.listen,
                   "HOST:PORT (default 127.0.0.1:7080; port 0: any that is free)")
      ->envname("TRAINRUN_DASHBOARD_LISTEN");
  command->add_option("--tls-cert", dashboard.tls_certificate,
                      "Certificate in PEM, with its chain; needed if other machines are to reach "
                      "it");
  command->add_option("--tls-key", dashboard.tls_key, "The certificate's key in PEM");
  command->add_option("--token-file", dashboard.token_file,
                      "The token, instead of a new one at each start (traind token makes a file)");
  command
      ->add_option("--host", dashboard.hosts,
                   "One more name by which browsers reach it; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--node-metrics-port", dashboard.node_metrics_port,
                   "The port of traind --metrics-listen on the nodes: /api/v1/sd lists them")
      ->check(CLI::Range(1, 65535));
  command->add_flag("--open-read", dashboard.open_read,
                    "Let everybody who reaches it read, without the token");
  command->add_flag("--allow-actions", dashboard.allow_actions,
                    "Allow actions on your runs: stop, checkpoint, stacks, profiles");
}

void add_driver_options(CLI::App* command, RunCommand& run) {
  command
      ->add_option("--events", run.events,
                   "all: stdout shows each event of the run as a line of JSON, and how far "
                   "metrics.jsonl has come (docs/driver.md); some: what --output says (default)")
      ->check(CLI::IsMember({"all", "some"}));
  command
      ->add_option("--driver-fd", run.driver_fd,
                   "A Unix socket, inherited from a program that follows and steers the run "
                   "(docs/driver.md)")
      ->check(CLI::Range(3, 1 << 20));
  command
      ->add_option("--on-driver-exit", run.on_driver_exit,
                   "When that program is gone: stop the run as SIGTERM does (default), or leave it "
                   "running")
      ->check(CLI::IsMember({"stop", "leave"}));
  command
      ->add_option("--pace", run.pace,
                   "With --driver-fd: each report() of a worker waits while that program has not "
                   "acknowledged so many rounds; 1: lock step. Default: workers never wait for it")
      ->check(CLI::Range(1, kReportWindowMax))
      ->needs("--driver-fd");
  command
      ->add_flag("--keep-workers", run.keep_workers,
                 "With --driver-fd: when the run has ended well, its workers wait for another one, "
                 "as long as that program and this command live, for 10 minutes at most")
      ->needs("--driver-fd");
  command
      ->add_option("--workers-of", run.workers_of,
                   "With --keep-workers: begin with the workers that wait after the run in this "
                   "folder")
      ->needs("--keep-workers");
}

void add_debugger_option(CLI::App* command, std::string& ranks) {
  command
      ->add_flag("--wait-for-debugger{all}", ranks,
                 "These ranks (=0-3,7; without a value: all) wait in train::run() until a debugger "
                 "attaches: train-run debug RUN --rank N")
      ->envname("TRAINRUN_WAIT_FOR_DEBUGGER");
}

void add_requeue_option(CLI::App* command, RunCommand& run) {
  command->add_flag("--requeue", run.requeue,
                    "In a Slurm job: if the run stops with exit code 75, have Slurm start the job "
                    "again (scontrol requeue)");
}

namespace {

/// The options of --detach, which runs and sweeps have.
template <class Command>
void add_controller_options(CLI::App* command, Command& options, const std::string& what) {
  command->add_flag("--detach", options.detach,
                    "Run in the background, under a traind of this machine; return once the " +
                        what + " has begun");
  command->add_option(
      "--runtime-dir", options.runtime_dir,
      "With --detach: the runtime folder of your own traind, instead of a private one");
  command->add_flag("--detached-controller", options.detached)->group("");
  command->add_flag(kRestartedOption, options.restarted)->group("");
  command->add_option("--private-daemon", options.private_daemon)->group("");
}

}  // namespace

void add_detach_options(CLI::App* command, RunCommand& run) {
  add_controller_options(command, run, "run");
  command->add_option(kFailoverOption, run.failover_of)->group("");
  command->add_flag(kFailoverCheckOption, run.failover_check)->group("");
  command->add_option(kFailoverMarkOption, run.failover_mark)->group("");
  command->add_option("--shared-daemon", run.shared_daemon)->group("");
}

void add_detach_options(CLI::App* command, SweepCommand& sweep) {
  command->add_option("--more-until", sweep.until)->group("");
  add_controller_options(command, sweep, "sweep");
}

void add_run_options(CLI::App* command, JobOptions& job, RunCommand& run) {
  add_job_options(command, job);
  add_output_option(command, run.output);
  command->add_flag("--dry-run", run.dry_run,
                    "Print placement, command and environment of each rank, and stop");
  command->add_flag("--print-config", run.print_config,
                    "Print the resolved spec with the origin of each value, and stop");
  command->add_flag("--force", run.force, "Take the run over from another train-run");
  add_log_option(command, run.log_format);
  add_worker_output_options(command, run.worker_output);
  add_driver_options(command, run);
  add_debugger_option(command, run.wait_for_debugger);
  add_detach_options(command, run);
  add_requeue_option(command, run);
  command->add_option("--member", run.member,
                      "The same command runs on each node: start a traind here, and, in member 0, "
                      "the run on all of them; end with the run. dns:NAME[:PORT], hosts:FILE or "
                      "slurm (docs/clusters.md)");
  command
      ->add_option("--traind-options", run.traind_options,
                   "With --member: more options for its traind, such as '--label rack=r1'")
      ->envname("TRAINRUN_TRAIND_OPTIONS");
  command->add_option("--with-parent", run.with_parent)->group("");
}

std::vector<std::string> variables_of_no_option() {
  std::set<std::string> left_out{"TRAINRUN_CLUSTER", "TRAINRUN_TRIAL"};
  CLI::App options;
  JobOptions job;
  RunCommand run;
  add_run_options(&options, job, run);
  for (const CLI::Option* option : options.get_options()) left_out.insert(option->get_envname());
  std::vector<std::string> variables;
  for (const auto& [name, value] : submitters_environment())
    if (!left_out.contains(name)) variables.push_back(name + "=" + value);
  return variables;
}

}  // namespace train
