// Names of the system calls in which training processes wait.
#pragma once

#include <string>

namespace train {

/// Return the name of a system call of this machine, or "call 451" if the table lacks it.
std::string syscall_name(long number);

}  // namespace train
