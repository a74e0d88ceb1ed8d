// Reports why a worker dies of a bug: records the crash for the supervisor (crash_record.h), or
// writes a native stack to stderr where there is none, and sends the exception, if there is one, to
// the launcher. The process still dies of the original signal, with a core file if there would be
// one.
#pragma once

#include <exception>

#include "lib/model/user_error.h"

namespace train::sdk {

/// Install handlers for SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL unless the program or a
/// sanitizer has one, or TRAINRUN_CRASH_HANDLER is 0; and the terminate handler for exceptions that
/// leave a thread. train::run() calls it on the main thread.
void install_crash_reporter(int rank);

/// Return the exception's text, its type as written in C++, and the place where it was thrown, if
/// known.
UserError describe_exception(const std::exception_ptr& exception);

}  // namespace train::sdk
