// This file starts our own threads, in the user's program as well as in ours. They take no signals:
// those are for the program's threads, whose handlers expect to run there.
#pragma once

#include <functional>
#include <thread>

#include "lib/base/result.h"

namespace train {

/// Start a thread. `name`: a literal of at most 15 characters, for ps and debuggers. Throws
/// std::system_error if the system has no thread to give.
std::thread start_thread(const char* name, std::function<void()> run);

/// Start a thread that nobody joins, for a call that may never return, such as one to storage that
/// does not answer. `run` must own all that it uses, or all of it must outlive the process's last
/// thread.
Result<Unit> start_unjoined_thread(const char* name, std::function<void()> run);

}  // namespace train
