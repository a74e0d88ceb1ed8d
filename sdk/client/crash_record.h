// Records where a worker crashes, for its supervisor (lib/progress/crash_record.h).
#pragma once

#include <signal.h>

#include "lib/progress/crash_record.h"

namespace train::sdk {

/// Record crashes of this process there from now on; nullptr: nowhere. The memory stays mapped.
void record_crashes_in(CrashRecord* record);

/// Record a crash: registers, stack and mappings. Async-signal-safe. Does nothing in a child that
/// the process forked. Only the first crash is recorded. Return whether the stack is
/// in the record.
bool record_crash(const siginfo_t& signal, const void* context);

}  // namespace train::sdk
