// Runs the program of num_workers: 0 for a driver (docs/driver.md): as a child that has the
// terminal, told of by the same events as a run with workers. Nothing restarts it, and nobody can
// call it.
#pragma once

#include <map>
#include <string>

#include "cmd/train-run/commands.h"
#include "launcher/core/job_spec.h"
#include "lib/storage/run_folder.h"

namespace train {

struct SoloProgram {
  const JobSpec& spec;
  std::string name;
  RunFolder folder;
  std::map<std::string, std::string> environment;
};

/// Run it to its end, and return train-run's exit code. Leaves run.json and exit.json in the
/// folder, and all reports since drivers follow it in metrics.jsonl.
int run_solo_for_driver(const SoloProgram& program, const RunCommand& options);

}  // namespace train
