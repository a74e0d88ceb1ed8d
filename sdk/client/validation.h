// The process that validates a checkpoint. It is started for that, with TRAINRUN_VALIDATE set.
#pragma once

#include "sdk/client/worker_session.h"

namespace train::sdk {

/// Return whether this process was started to validate a checkpoint.
bool validating();
/// Call the program's function (train::validation), and leave its metrics, or why there are none,
/// where the supervisor looks. Return the exit code.
int run_validation(WorkerSession& session);
/// Write the metrics that are the result into $TRAINRUN_RESULT_FILE, as JSON with NaN and Infinity
/// as Python writes them. Throws Failure.
void write_validation_result(const Dict& metrics);

}  // namespace train::sdk
