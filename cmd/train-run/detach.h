// --detach: hands the controller of a run or of a sweep to a traind on this machine, and returns.
#pragma once

#include <string>
#include <vector>

#include "cmd/train-run/commands.h"
#include "launcher/cluster/run/run_job.h"

namespace train {

/// Add options to the arguments of a train-run: before the "--" that ends its own.
void add_options(std::vector<std::string>& words, const std::vector<std::string>& options);

/// Return the arguments, without --detached-controller, of a train-run that continues a run after
/// its controller has died.
std::vector<std::string> words_to_resume(const std::string& folder, const RunCommand& options);

/// Detach a run, and return the exit code. `run`: what this process would run in the foreground.
/// `words`: the arguments of the controller that runs it.
int detach(const RunOptions& run, const std::vector<std::string>& words, const RunCommand& options);

/// Detach a sweep, whose folder is `path` and has its specs. `names_nodes`: it has no private
/// traind of its own.
int detach_sweep(const std::string& path, bool names_nodes, const SweepCommand& options);

}  // namespace train
