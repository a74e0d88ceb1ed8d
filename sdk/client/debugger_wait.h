// Lets a worker wait until a debugger has attached to it (train-run --wait-for-debugger).
#pragma once

#include <string_view>

#include "sdk/client/session.h"

namespace train::sdk {

/// Return whether "0-3,7" or "all" names the rank.
bool names_rank(std::string_view ranks, int rank);

/// Wait until a debugger has attached to this process and let it go on, if
/// TRAINRUN_WAIT_FOR_DEBUGGER names this rank. Print how to attach. Call it on the loop's thread.
void wait_for_debugger(const WorkerInfo& info);

}  // namespace train::sdk
