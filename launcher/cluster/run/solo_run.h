// Runs the program of num_workers: 0 for a driver (docs/driver.md): as a child that has the
// terminal, told of by the same events as a run with workers. Nothing restarts it, and nobody can
// call it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

struct SoloProgram {
  const JobSpec& spec;
  std::string name;
  RunFolder folder;
  std::map<std::string, std::string> environment;
  int driver_fd = -1;
  bool outlives_driver = false;
  /// Returns this process and all that descend from it.
  std::function<std::vector<pid_t>()> process_tree;
};

/// Run it to its end, and return train-run's exit code. Leaves run.json and exit.json in the
/// folder, and all reports since drivers follow it in metrics.jsonl. Blocks; handles this process's
/// signals and children. The error says why it has not begun.
Result<int> run_solo_for_driver(const SoloProgram& program);

}  // namespace train
