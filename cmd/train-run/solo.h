// num_workers: 0: the program runs alone, in place of train-run, so that the terminal and the
// debugger are its own. No traind, no supervision, no restart.
#pragma once

#include <map>
#include <string>

#include "cmd/train-run/commands.h"
#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Become the job's program (exec): a world of one in the job's working directory and environment.
/// The SDK finds train_loop_config, metadata and datasets in a file, and keeps its reports and
/// checkpoints in <storage_path>/<name>-solo; a later start restores the newest checkpoint from
/// there. Return an exit code if that is not possible.
int run_solo(const JobSpec& spec, const RunCommand& options,
             const std::map<std::string, std::string>& submitter);

}  // namespace train
