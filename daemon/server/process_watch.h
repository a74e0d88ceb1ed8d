// Processes that need not be our children, perhaps those of an earlier traind. A pid may be another
// process's by now, so each goes with when it was started.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <string>

#include "lib/net/task.h"

namespace train {

/// When a process was started, in the kernel's ticks; "" where it is gone, or a zombie, or no
/// descriptor is left to read that with.
std::string process_start(pid_t pid);

/// Until the process has ended that process_start() gave `start` for; until whatever has that pid,
/// where that was "". No lack of descriptors is taken for its end. Cancelled.
Task<Unit> wait_until_gone(asio::any_io_executor executor, pid_t pid, std::string start);

}  // namespace train
