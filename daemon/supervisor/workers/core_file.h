// Finds the core file that the kernel wrote of a worker, by core(5): kernel.core_pattern names it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

namespace train {

struct CoreDump {
  pid_t pid = 0;
  int signal = 0;
  std::string folder = {};  // in which the worker began: where a core file without a folder goes
  std::chrono::system_clock::time_point ended = {};
};

/// Return the shell pattern (glob(7)) that the core file's path matches; what cannot be known of a
/// dead process is "*". Empty if the kernel hands core dumps to a program. Pure.
std::string core_file_glob(std::string_view core_pattern, bool uses_pid, const CoreDump& dump);

/// Return what the user can do with the dump: the path of the core file, or the command that knows
/// it; "" if none was found. Only a regular file of our user that was written as the worker ended
/// is taken for it. Reads folders: blocks.
std::string find_core_dump(const CoreDump& dump);

}  // namespace train
