// traind: the daemon of a node, and (`traind supervise`) the parent of one attempt's workers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cmd/build_info.h"
#include "cmd/parse_end.h"
#include "cmd/traind/certs.h"
#include "daemon/server/control_port.h"
#include "daemon/server/daemon.h"
#include "daemon/server/dial_stdio.h"
#include "daemon/server/probe.h"
#include "daemon/supervisor/limits/cgroup_release.h"
#include "daemon/supervisor/supervisor.h"
#include "lib/base/print.h"
#include "lib/base/secrets.h"
#include "lib/net/runtime_dir.h"
#include "lib/net/token.h"

namespace {

constexpr double kAmountMax = 1e9, kMemoryBytesMax = 1e18;  // as for what a launcher claims
constexpr double kGpusMax = 1024;

void parse_amounts(const std::vector<std::string>& texts, std::map<std::string, double>& into) {
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(text.substr(equals + 1), &used);
    } catch (const std::exception&) {  // not a number: reported below
    }
    if (equals == std::string::npos || used == 0 || used != text.size() - equals - 1) {
      throw CLI::ValidationError(
          "--resource", fmt::format("'{}' is not NAME=AMOUNT, as in CPU=8 or tape=1", text));
    }
    const double most = name == "memory" ? kMemoryBytesMax : name == "GPU" ? kGpusMax : kAmountMax;
    if (!(value >= 0 && value <= most)) {  // a NaN is never within bounds
      throw CLI::ValidationError(
          "--resource", fmt::format("the amount in '{}' must be from 0 to {:g}", text, most));
    }
    into[name] = value;
  }
}

/// Add an option that takes a time such as "60s" or "1500ms", and stores it in milliseconds.
void add_duration(CLI::App& app, const std::string& name, std::int64_t& ms,
                  const std::string& text) {
  const std::map<std::string, std::int64_t> units{
      {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
  app.add_option(name, ms, text)
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_REQUIRED).description(""))
      ->check(CLI::Range(std::int64_t{0}, train::kDrainGraceMsMax).description(""));
}

constexpr const char* kFooter =
    "Signals: SIGTERM and SIGUSR1 (Slurm's warning) drain the node: launchers checkpoint and\n"
    "move their work away within --drain-grace; another SIGTERM, at least 1 s later, exits\n"
    "immediately. SIGINT exits immediately, for an upgrade: workers keep running, and the next\n"
    "traind finds them. SIGHUP reloads the token or the certificates; so does a new connection if\n"
    "they changed.";

}  // namespace

int main(int argc, char** argv) {
  train::hold_standard_streams();
  train::learn_own_secrets();
  CLI::App app{"Runs the workers of training runs on this node, for train-run.", "traind"};
  app.set_version_flag("--version", train::version_text("traind"));
  train::DaemonOptions daemon;
  daemon.build = train::kBuild;
  std::vector<std::string> resources;
  app.add_option("--listen", daemon.listen,
                 "Where launchers connect: HOST:PORT or unix:PATH (default: traind.sock in the "
                 "runtime folder); may be repeated")
      ->allow_extra_args(false)
      ->envname("TRAINRUN_LISTEN");
  app.add_option("--metrics-listen", daemon.metrics_listen,
                 "HOST:PORT where Prometheus reads this node's metrics (/metrics, /healthz, "
                 "/readyz), without a token; it names no run and no user")
      ->envname("TRAINRUN_METRICS_LISTEN");
  app.add_option("--health", daemon.health,
                 "HOST:PORT for probes: /-/healthy (200 if traind lives) and /-/ready (503 while "
                 "the node drains, or traind looks for its supervisors), without a token")
      ->envname("TRAINRUN_HEALTH");
  app.add_option("--token-file", daemon.token_file,
                 "The cluster's shared secret (mode 600); every HOST:PORT requires it or --tls")
      ->envname("TRAINRUN_TOKEN_FILE");
  CLI::Option* tls =
      app.add_option(
             "--tls", daemon.tls_folder,
             "Certificates in place of a token: a folder with ca.crt, tls.crt and tls.key (see "
             "traind certs)")
          ->envname("TRAINRUN_TLS");
  app.add_option("--allow-launcher", daemon.allowed_launchers,
                 "With --tls: users whose certificates may use this node (default: all); "
                 "may be repeated")
      ->needs(tls)
      ->allow_extra_args(false);
  app.add_option("--runtime-dir", daemon.runtime_dir, "Folder for sockets");
  app.add_option("--spool-dir", daemon.spool_dir,
                 "Folder that holds worker output until it is sent to the launcher");
  app.add_option("--data-dir", daemon.data_dir,
                 "Folder for checkpoints of runs without shared storage, on a disk with space for "
                 "several (default: data below --spool-dir)");
  app.add_option("--node-name", daemon.node_name,
                 "Name of this node (default: the name in its certificate, or the host name)");
  app.add_option("--resource", resources,
                 "NAME=AMOUNT: offer this amount instead of the detected one (CPU, GPU, memory in "
                 "bytes), or another resource (tape=1)")
      ->allow_extra_args(false);
  app.add_option("--label", daemon.labels,
                 "NAME=VALUE: a label of this node, which scaling_config.label_selector asks for; "
                 "may be repeated. It has host, arch and gpu (the model) by itself")
      ->allow_extra_args(false);
  app.add_option("--gpus", daemon.gpus,
                 "Offer only these GPUs: indexes, or UUIDs or their beginnings, with commas "
                 "(0,3 or GPU-8f2c)");
  std::int64_t drain_grace_ms = 60000;
  add_duration(app, "--drain-grace", drain_grace_ms,
               "Time for launchers to move their work away after SIGTERM (default 60s)");
  app.add_flag("--allow-root", daemon.allow_root, "As root, run workers as root");
  app.add_option("--run-as", daemon.run_as,
                 "As root, run workers as this user. May be repeated: run_config.user then selects "
                 "one of them (default: the first); with --tls, the launcher's certificate does")
      ->allow_extra_args(false);
  app.add_flag(
      "--leave-with-stdin", daemon.leave_with_stdin,
      "Exit, as on SIGINT, when stdin closes, that is, when the ssh or srun that started it ends");
  app.add_flag("--token-stdin", daemon.token_stdin,
               "Read the cluster's shared secret from the first line of stdin")
      ->excludes(tls);
  app.add_flag("--announce", daemon.announce,
               "For a launcher that starts it by srun or ssh: print the node's name and address "
               "once it listens; without --listen, on the address that leads to srun; without "
               "--runtime-dir, in folders of its own, which it removes. At its end, stop workers");
  CLI::Option* ends_with_run = app.add_flag(
      "--end-with-run", daemon.end_with_run,
      "Leave once the run that it has served has ended, with the run's exit code (75 after "
      "a drain, 69 if its launcher has died, and no other one came while workers wait for it)");
  std::int64_t run_within_ms = 1'800'000;
  add_duration(app, "--run-within", run_within_ms,
               "With --end-with-run: how long a launcher may take to come (default 30m)");
  app.get_option("--run-within")->needs(ends_with_run);
  app.add_option("--log-level", daemon.log_level, "debug, info, warn or error")
      ->envname("TRAINRUN_LOG_LEVEL");
  app.add_flag("--private", daemon.leave_with_last_run, "Leave with the last run")->group("");
  app.add_flag("--of-user", daemon.of_user, "With --private: several launchers share it")
      ->group("");

  std::string new_token_file;
  CLI::App* token = app.add_subcommand("token", "Make a new random token for --token-file");
  token->add_option("file", new_token_file, "The file to create, readable for its owner only")
      ->required();

  const train::CertsCommand certs(app);

  train::DrainRequest drain{
      .runtime_dir = {}, .grace = {}, .reason = "traind drain", .build = train::kBuild};
  std::int64_t grace_ms = 60000;
  CLI::App* drains = app.add_subcommand(
      "drain", "Drain the traind of a --runtime-dir, and wait until it has exited");
  add_duration(*drains, "--grace", grace_ms,
               "Time for launchers to move their work away (default 60s)");
  drains->add_option("--reason", drain.reason, "The reason to give to launchers");
  drains->fallthrough();

  CLI::App* dial = app.add_subcommand(
      "dial-stdio",
      "For train-run --ssh: join stdin and stdout to the traind of this user, and start one, which "
      "ends with its last run, if none listens on a Unix socket");
  dial->fallthrough();

  std::string probed_storage;
  CLI::App* probe =
      app.add_subcommand("probe", "Be a worker of train-run check, and print what it finds")
          ->group("");
  probe->add_option("storage", probed_storage, "The folder that all nodes should see");

  CLI::App* cgroup = app.add_subcommand("cgroup", "What the service of systemd needs");
  cgroup->require_subcommand(1);
  CLI::App* release = cgroup->add_subcommand(
      "release",
      "Once traind has ended, let systemd before 254 start it again while workers live: take the "
      "controllers off the service's cgroup");
  release->fallthrough();
  cgroup->fallthrough();

  train::SupervisorOptions supervisor;
  supervisor.build = train::kBuild;
  std::uint32_t attempt = 0;
  CLI::App* supervise =
      app.add_subcommand("supervise", "Be the parent of one attempt's workers (started by traind)")
          ->group("");
  supervise->add_option("--run", supervisor.run_id)->required();
  supervise->add_option("--attempt", attempt)->required();
  supervise->add_option("--link-fd", supervisor.link_fd)->required();
  supervise->add_option("--socket-fd", supervisor.socket_fd)->required();
  supervise->add_option("--kept-fd", supervisor.kept_fd);
  supervise->add_option("--spool", supervisor.spool_dir)->required();
  supervise->add_option("--data", supervisor.data_dir)->required();
  supervise->add_option("--cgroup", supervisor.cgroup_name);
  supervise->add_option("--orphan-timeout-ms", supervisor.orphan_timeout_ms);
  train::UserAccount account;
  CLI::Option* becomes = supervise->add_option("--uid", account.uid);
  supervise->add_option("--gid", account.gid)->needs(becomes);
  supervise->add_option("--groups", account.groups)->needs(becomes)->delimiter(',');

  app.footer(kFooter);  // last: subcommands would inherit it
  try {
    app.parse(argc, argv);
    parse_amounts(resources, daemon.resources);
  } catch (const CLI::ParseError& error) {
    return train::end_of_parse(app, error, 64);
  }
  if (token->parsed()) {
    const auto made = train::create_token_file(new_token_file);
    if (made) return 0;
    train::print_err("traind: error: {}\n", made.error().describe());
    return 73;
  }
  if (certs.parsed()) return train::finish_output(certs.run());
  if (supervise->parsed()) {
    supervisor.attempt = train::Attempt{attempt};
    if (becomes->count() > 0) supervisor.account = account;
    return train::run_supervisor(supervisor);
  }
  if (probe->parsed()) return train::finish_output(train::run_probe(probed_storage));
  if (dial->parsed()) return train::run_dial_stdio(daemon.runtime_dir);
  if (daemon.runtime_dir.empty() && !daemon.announce)
    daemon.runtime_dir = train::default_runtime_dir();
  if (release->parsed()) {
    const auto done = train::release_cgroup(daemon.runtime_dir, train::raw_own_cgroup_locations());
    if (done) return 0;
    train::print_err("traind: error: {}\n", done.error().describe());
    return 74;
  }
  if (drains->parsed()) {
    drain.runtime_dir = daemon.runtime_dir;
    drain.grace = std::chrono::milliseconds(grace_ms);
    return train::run_drain(drain);
  }
  daemon.drain_grace = std::chrono::milliseconds(drain_grace_ms);
  daemon.run_within = std::chrono::milliseconds(run_within_ms);
  const bool alone = daemon.announce && daemon.runtime_dir.empty();  // it makes its folders
  if (daemon.listen.empty() && !daemon.announce)
    daemon.listen = {"unix:" + daemon.runtime_dir + "/traind.sock"};
  if (daemon.spool_dir.empty() && !alone) daemon.spool_dir = train::default_spool_dir();
  return train::run_daemon(daemon);
}
