// Runs py-spy (https://github.com/benfred/py-spy), which knows where the threads of a Python
// process are in Python. It is used where it is installed: in the process's environment, else in
// our PATH.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// Return whether a process runs the CPython interpreter.
bool runs_python(pid_t pid);

/// Return the path of py-spy for a process, or "": beside its Python, in its VIRTUAL_ENV, in its
/// PATH, or in ours. The environment of another user's process is not asked: who may write it could
/// have us run anything. Nor is a file taken that everybody may write.
std::string find_py_spy(pid_t pid);

struct PySpyOrder {
  pid_t pid = 0;
  std::vector<std::string> arguments{};  // without the process
  bool to_third = false;                 // as in ProgramOrder
  std::size_t bytes_max = 0;             // of its output
};

/// Return what py-spy writes about a process; nothing if that does not run Python. NotFound: py-spy
/// is not installed. Blocks until `deadline` at the latest, whatever the process has put into its
/// environment: a call that storage holds stays behind on a thread of its own.
Result<std::optional<std::string>> ask_py_spy(const PySpyOrder& order, TimePoint deadline);

/// How many calls may stay behind: then no more are made.
inline constexpr int kPySpyCallsMax = 16;

}  // namespace train
