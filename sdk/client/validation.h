// Runs in a process that was started to validate a checkpoint: TRAINRUN_VALIDATE is set there.
#pragma once

#include "sdk/client/worker_session.h"

namespace train::sdk {

/// Return whether this process was started to validate a checkpoint.
bool validating();
/// Call the program's function (train::validation), and leave its metrics, or the reason why there
/// are none, where the supervisor looks for them. Return the exit code.
int run_validation(WorkerSession& session);
/// Write the resulting metrics into $TRAINRUN_RESULT_FILE, as JSON with NaN and Infinity as Python
/// writes them. Throws Failure.
void write_validation_result(const Dict& metrics);

}  // namespace train::sdk
