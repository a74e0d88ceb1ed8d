// Watches processes that may not be our children, such as those of an earlier traind. A pid may
// belong to another process by now, so each is kept together with the time at which its process was
// started.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <string>

#include "lib/net/task.h"

namespace train {

/// Return when a process was started, in the kernel's ticks; "" if it is gone or a zombie, or if no
/// descriptor is left for reading that.
std::string process_start(pid_t pid);

/// Return whether a process goes on running: it is there, and not about to end. Of one that is
/// ending, descriptors may be closed already.
bool goes_on(pid_t pid);

/// Wait until the process for which process_start() returned `start` has ended. If `start` is "",
/// wait for whatever process has that pid. A lack of descriptors is never mistaken for the end.
/// Errors: Cancelled.
Task<Unit> wait_until_gone(asio::any_io_executor executor, pid_t pid, std::string start);

}  // namespace train
