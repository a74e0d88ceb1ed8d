// `traind probe`: what `train-run check` runs as the worker of each node. The probes meet at
// MASTER_ADDR:MASTER_PORT as the ranks of a job do, and find out what a job would need: connections
// between all of them, clocks that agree, one storage, locked memory. Each prints one line of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct ProbeOptions {
  int rank = 0, world_size = 1;
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string storage;           // a folder that all nodes should see; empty: none
  std::string mark;              // names the run's own folder in it
  Duration limit = seconds(10);  // for each step
  bool ends_on_sigterm = false;  // leaving no file behind
};

/// What a probe has found out.
struct ProbeReport {
  int rank = 0;
  std::string error = {};                      // it has met nobody; then the rest is missing
  std::vector<int> absent = {};                // ranks that have not come to the meeting
  std::vector<int> unreachable = {};           // ranks that it cannot connect to
  std::optional<double> clock_ms = {};         // its clock, less that of rank 0
  std::optional<double> clock_within_ms = {};  // how exactly that is known
  std::optional<double> sum_ms = {};           // the time of an all-reduce; none: it was wrong
  std::int64_t locked_memory = -1;             // the limit in bytes; −1: none
  std::string storage_error = {};              // it cannot write there
  std::vector<int> storage_missing = {};       // ranks whose files it does not see
};

std::string to_json(const ProbeReport& report);

/// Run the steps. Blocks for a few times the limit at most.
ProbeReport probe(const ProbeOptions& options);

/// Run the command with what the environment says, and print the report. Return the exit code: 0,
/// or 64 if the environment is not that of a worker.
int run_probe(const std::string& storage);

}  // namespace train
