// Asks Slurm by its own commands, from our PATH. Calls block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kSlurmAnswerLimit = seconds(10);

/// Run a command, and return what it wrote to stdout (64 KiB at most). The error has what it wrote
/// to stderr. It is killed after kSlurmAnswerLimit.
Result<std::string> run_slurm_command(const std::vector<std::string>& argv);

/// Return how long the job still has, by squeue; nothing if it has no limit.
Result<std::optional<Duration>> ask_time_left(const std::string& job_id);
/// Ask Slurm to end the job, and to start it again from its beginning.
Result<Unit> requeue(const std::string& job_id);

}  // namespace train
