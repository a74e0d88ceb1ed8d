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
  std::string token_file, tls_folder;          // at most one: see lib/net/tls_files.h
  std::vector<std::string> allowed_launchers;  // by their certificates; empty: all of the cluster
  std::string runtime_dir;                     // sockets; short, since a Unix socket's path is
  std::string spool_dir;                       // worker output on its way
  std::string data_dir;   // checkpoints, where runs have no shared storage; empty: spool_dir/data
  std::string node_name;  // empty: as the certificate says, or the host's
  std::map<std::string, double>
      resources;  // CPU, GPU, memory (bytes) instead of what is found, and custom ones
  bool leave_with_last_run = false;    // a private traind
  bool leave_with_stdin = false;       // as one that was started over ssh
  Duration drain_grace = seconds(60);  // at SIGTERM
  std::vector<std::string> run_as;     // users, as root; empty: workers are this user's
  bool allow_root = false;  // run workers as root for a network that is not this machine's own
  std::string log_level = "info";
  std::string build;
};

/// Serve until SIGTERM or SIGUSR1 (drain: see docs), or until a later TERM or SIGINT (leave at
/// once; supervisors and workers live on). A private traind serves until its last run has gone.
/// Return the process's exit code, after a message on stderr if traind could not start.
int run_daemon(DaemonOptions options);

/// Return the spool folder for when no flag names it: /var/tmp/trainrun-UID.
std::string default_spool_dir();

}  // namespace train
