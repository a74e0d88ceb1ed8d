// What runs once on a node before its first workers (per_node_setup in the spec).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/fields.h"

namespace train {

struct NodeSetup {
  std::vector<std::string> command = {};  // empty: nothing
  std::string working_dir = {};
  // The workers' environment, and the names of the variables that the spec sets.
  std::map<std::string, std::string> env = {};
  std::vector<std::string> job_env = {};
  std::string run_name = {};
  double cpus_per_worker = 1;
  std::int64_t timeout_ms = 1800000;
  /// The life of the node in which it has succeeded (NodeSetupEnded::life); empty: in none. If that
  /// goes on, it does not run again.
  std::string done_in = {};
  bool operator==(const NodeSetup&) const = default;
  TRAIN_FIELDS(command, working_dir, env, job_env, run_name, cpus_per_worker, timeout_ms, done_in)
};

}  // namespace train
