// Finds out where an exception was thrown. By the time a catch clause runs, the stack is gone, so
// this watches the throw itself (__cxa_throw, passed on to the C++ runtime) and remembers the
// addresses until someone asks for them.
#pragma once

#include <exception>
#include <string>

namespace train::sdk {

/// Remember the stack of throws from now on: the first 10,000 of the process, so that a program
/// that throws in a hot loop does not pay for it forever.
void watch_throws();

/// Return the stack of the throw of `exception`, one line per frame, innermost first. Empty when
/// the throw was not watched, or was on another thread.
std::string throw_stack(const std::exception_ptr& exception);

/// Return "#0 function(int) (module+0x12)" lines for return addresses: for the program's own
/// functions, or for all when none is its own. Names come from the modules' symbol tables
/// (symbol_table.h).
std::string describe_frames(void* const* frames, int count);

}  // namespace train::sdk
