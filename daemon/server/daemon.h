// traind: accepts launchers, leases the node's resources to runs, starts supervisors and finds them
// again after its own restart, and passes frames between a launcher and its supervisors.
// core/node_agent makes the decisions; the daemon carries them out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct DaemonOptions {
  std::vector<std::string> listen;             // endpoints: "unix:/run/x.sock", "127.0.0.1:7070"
  std::string metrics_listen;                  // HOST:PORT for Prometheus; empty: none
  std::string health;                          // HOST:PORT for probes; empty: none
  std::string token_file, tls_folder;          // at most one: see lib/net/tls_files.h
  std::vector<std::string> allowed_launchers;  // by certificate name; empty: the whole cluster
  std::string runtime_dir;  // for sockets; short, as a Unix socket's path must be
  std::string spool_dir;    // for worker output on its way to the launcher
  std::string data_dir;     // for checkpoints of runs without shared storage; empty: spool_dir/data
  std::string node_name;    // empty: that of the certificate, or the host's
  std::vector<std::string> labels;  // "rack=r1", beside those that the node knows by itself
  std::string gpus;                 // the only ones to offer, as --gpus lists them; empty: all
  /// CPU, GPU and memory (bytes) that replace those found, and custom resources.
  std::map<std::string, double> resources;
  bool leave_with_last_run = false;  // a private traind
  bool of_user = false;              // a private one that several launchers of its user share
  bool leave_with_stdin = false;     // exit at the end of stdin: for one that was started over ssh
  bool token_stdin = false;          // the token is the first line of stdin
  /// Started for one launcher, which reads from stdout where this node listens. It has folders of
  /// its own, unless they are named, and ends with all that it has started.
  bool announce = false;
  /// Leave once the run that it serves has ended, with the run's exit code, or if no launcher comes
  /// within `run_within`. It says on stdout when it listens.
  bool end_with_run = false;
  Duration run_within = std::chrono::minutes(30);
  bool removes_folders = false;  // at its end; run_daemon() sets it for folders that it has made
  Duration drain_grace = seconds(60);  // at SIGTERM and SIGUSR1
  std::vector<std::string> run_as;     // the users that workers may run as; empty: only this user
  bool allow_root = false;             // let a traind that is not private run workers as root
  std::string log_level = "info";
  std::string build;
};

/// Serve until a drain has ended (SIGTERM, SIGUSR1 or `traind drain`: see docs), or until SIGINT or
/// a later SIGTERM (exit at once; supervisors and workers keep running). A private traind serves
/// until its last run is over, and exits at once at SIGTERM, too. Return the process's exit code,
/// or exit with it, after a message on stderr if traind could not start.
int run_daemon(DaemonOptions options);

/// Return the default spool folder, /var/tmp/trainrun-UID.
std::string default_spool_dir();

}  // namespace train
