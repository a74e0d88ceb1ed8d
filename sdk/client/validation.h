// The process that validates a checkpoint: started for it, with TRAINRUN_VALIDATE set.
#pragma once

#include "sdk/client/worker_session.h"

namespace train::sdk {

/// This process was started to validate a checkpoint.
bool validating();
/// Call the program's function (train::validation), and leave its metrics, or why there are none,
/// where the supervisor looks. The exit code.
int run_validation(WorkerSession& session);
/// The metrics that are the result, as JSON with NaN and Infinity as Python writes them, into
/// $TRAINRUN_RESULT_FILE. Throws Failure.
void write_validation_result(const Dict& metrics);

}  // namespace train::sdk
