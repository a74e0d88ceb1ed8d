// `train-run dashboard`: one process that reads run folders and serves the pages, the JSON API and
// Prometheus' metrics. It keeps no state and writes nothing, but for requests that a user makes
// (--allow-actions).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct DashboardOptions {
  std::vector<std::string> places = {};  // runs, folders of runs, URLs of runs
  std::string listen = "127.0.0.1:7080";
  std::string tls_certificate = {}, tls_key = {};  // PEM files; both or none
  std::string token_file = {};                     // empty: a new token for each start
  std::vector<std::string> hosts = {};             // more names by which browsers may reach it
  bool open_read = false;                          // reading needs no token
  bool allow_actions = false;
  int node_metrics_port = 0;  // of each traind of a run, for /api/v1/sd; 0: they have none
  std::string version = {};
};

/// Serve until SIGINT or SIGTERM. Return the process's exit code.
int run_dashboard(const DashboardOptions& options);

}  // namespace train
