// What a worker finds out without a supervisor: torchrun's variables, and a spec file. Pure but for
// reading that file.
#pragma once

#include <functional>
#include <string>

#include "sdk/client/session.h"

namespace train::sdk {

/// The value of a variable; null when it is not set (std::getenv).
using Environment = std::function<const char*(const char*)>;

/// A world of one, or the ranks that torchrun gave. Throws Failure for a variable that cannot be.
WorkerInfo info_from_environment(const Environment& env);
/// This program's `--trainrun-spec=FILE`, else TRAINRUN_SPEC; empty when there is neither.
std::string spec_path(const std::vector<std::string>& arguments, const Environment& env);
/// Read {train_loop_config, metadata, datasets} from the JSON file at `path` into `info`. Throws
/// Failure that names the file.
void read_spec(const std::string& path, WorkerInfo& info);
/// The arguments of this process, by /proc.
std::vector<std::string> process_arguments();

}  // namespace train::sdk
