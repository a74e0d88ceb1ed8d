// Threads of our own, in the user's program as in ours. They take no signal: those are for the
// program's threads, whose handlers expect to run there.
#pragma once

#include <functional>
#include <thread>

#include "lib/base/result.h"

namespace train {

/// Start a thread. `name`: a literal of at most 15 characters, for ps and debuggers. Throws
/// std::system_error where no thread is to be had.
std::thread start_thread(const char* name, std::function<void()> run);

/// Start a thread that nobody joins, for a call that may never return, as one to storage that does
/// not answer. `run` must own all that it uses, or have it outlive the process's last thread.
Result<Unit> start_unjoined_thread(const char* name, std::function<void()> run);

}  // namespace train
