// Finds runs by what users call them: a folder, a URL, or a name. Calls block.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// Register the run by name in the user's registry (~/.local/state/trainrun/runs), for `train-run
/// status NAME`. Best effort.
void register_run(const std::string& name, const std::string& path);
/// Return the registered names, at most `names_max` of them, in order.
std::vector<std::string> registered_runs(std::size_t names_max);
/// Find a run, and return its folder on this machine. `given`: RUN of the command line: a path or
/// URL, a name under `storage_path`, or a registered name. For a run in an object store, the folder
/// is the working folder, brought up to date unless the run's launcher runs here. NotFound lists
/// where it looked.
Result<std::string> find_run(const std::string& given, const std::string& storage_path);

}  // namespace train
