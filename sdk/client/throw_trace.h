// Where an exception was thrown: by the time a catch clause runs, its stack is gone. So the throw
// itself is watched
// (__cxa_throw, passed on to the C++ runtime), and the addresses are remembered until somebody
// asks.
#pragma once

#include <exception>
#include <string>

namespace train::sdk {

/// Remember the stack of throws from now on: the first 10,000 of the process, so that a program
/// that throws in a hot loop does not pay for ever.
void watch_throws();

/// The stack of the throw of `exception`, a line a frame, innermost first. Empty when it was not
/// watched, or was thrown on another thread.
std::string throw_stack(const std::exception_ptr& exception);

/// Return "#0 function(int) (module+0x12)" lines of return addresses: of the program's own
/// functions, or of all where none is its own. Names come from the modules' symbol tables
/// (symbol_table.h).
std::string describe_frames(void* const* frames, int count);

}  // namespace train::sdk
