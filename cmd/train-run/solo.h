// num_workers: 0: the program runs alone, in place of train-run, so that the terminal and the
// debugger are its own. No traind, no supervision, no restart. Of a driver's train-run it is a
// child (solo_run.h).
#pragma once

#include <map>
#include <string>

#include "cmd/train-run/commands.h"
#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Become the job's program (exec): a world of one in the job's working directory and environment.
/// The SDK reads train_loop_config, metadata and datasets from a file, and keeps its reports and
/// checkpoints in <storage_path>/_solo-<name>; a later start restores the newest checkpoint from
/// there. `source`: what `parsed` was parsed from; the time that it gave a default name is left
/// out. Return an exit code if that is not possible, and for --dry-run.
int run_solo(const ParsedSpec& parsed, const SpecSource& source, const RunCommand& options);

}  // namespace train
