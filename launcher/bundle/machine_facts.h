// Describes this machine, and how it treats our processes, for a bug report. Calls block.
#pragma once

#include <string>

namespace train {

/// Return the facts, one a line: system, processor, memory, limits, cgroups, GPUs, and the
/// variables that steer training libraries. `build`: our version. `folder`: whose file system it
/// tells of.
std::string machine_facts(const std::string& build, const std::string& folder);

/// Return the libraries of training (LibTorch, NCCL, CUDA) that this process has loaded, a path a
/// line, or "" if it cannot be told.
std::string training_libraries_of(int pid);

}  // namespace train
