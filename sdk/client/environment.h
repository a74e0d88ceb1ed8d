// Finds out what a worker can know without a supervisor, from torchrun's variables and a spec file.
// Pure except for reading that file and /proc.
#pragma once

#include <functional>
#include <string>

#include "sdk/client/session.h"

namespace train::sdk {

/// The value of a variable; null when it is not set (std::getenv).
using Environment = std::function<const char*(const char*)>;

/// Return a world of one, or the ranks that torchrun gave. Throws Failure for a variable with an
/// impossible value.
WorkerInfo info_from_environment(const Environment& env);
/// Return this program's `--trainrun-spec=FILE`, else TRAINRUN_SPEC; empty when there is neither.
std::string spec_path(const std::vector<std::string>& arguments, const Environment& env);
/// Read {train_loop_config, metadata, datasets} from the JSON file at `path` into `info`. Throws a
/// Failure that names the file.
void read_spec(const std::string& path, WorkerInfo& info);
/// Return the arguments of this process, from /proc.
std::vector<std::string> process_arguments();

}  // namespace train::sdk
