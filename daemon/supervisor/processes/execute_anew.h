// How a supervisor begins anew for its run's successor, without losing the processes that wait for
// that: it executes its own program again, as the same process, which stays their parent.
#pragma once

#include "daemon/supervisor/supervisor.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Execute this program as a supervisor with these options, and hand on `kept`, with the
/// descriptors that both name. Return only if that fails, and why. Main thread only: a child's
/// PDEATHSIG is tied to the thread that forked it, and the others end.
Error execute_anew(SupervisorOptions options, const KeptWorkers& kept);

/// Read what was handed on.
Result<KeptWorkers> read_kept(FileDescriptor file);

}  // namespace train
