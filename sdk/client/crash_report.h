// What a worker says when it dies of a bug: a native stack on stderr (the supervisor keeps the last
// lines of it), and the exception, where there is one, to the launcher. The process still ends by
// the true signal.
#pragma once

#include <exception>

#include "lib/model/user_error.h"

namespace train::sdk {

/// Install handlers for SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL where the program has none of
/// its own (nor a sanitizer), and the terminate handler for exceptions that leave a thread. Called
/// by train::run(), on the main thread.
void install_crash_reporter(int rank);

/// What the exception says, its type as written in C++, and where it was thrown if that is known.
UserError describe_exception(const std::exception_ptr& exception);

}  // namespace train::sdk
