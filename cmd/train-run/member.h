// --member: the same command on each node starts a traind there; the one with the index 0 also
// launches the run on all of them.
#pragma once

#include "cmd/train-run/commands.h"

namespace train {

/// Run a member until the run has ended. Return the run's exit code.
int member_command(const JobOptions& job, const RunCommand& options);

}  // namespace train
