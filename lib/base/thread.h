// This file starts our own threads, in the user's program as well as in ours. They block all
// signals, whose handlers expect to run on the program's own threads.
#pragma once

#include <functional>
#include <thread>

#include "lib/base/result.h"

namespace train {

/// Start a thread. `name` is a literal of at most 15 characters, for ps and debuggers. Throws
/// std::system_error if the system cannot start another thread.
std::thread start_thread(const char* name, std::function<void()> run);

/// Start a thread that nobody joins, for a call that may never return, such as one to storage that
/// does not answer. Everything that `run` uses must belong to it or live as long as the process.
Result<Unit> start_unjoined_thread(const char* name, std::function<void()> run);

}  // namespace train
