// Where the threads of a process are in Python, as py-spy tells it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/stacks/process_stacks.h"

namespace train {

struct PythonThread {
  pid_t tid = 0;                     // 0: not known (before Python 3.11)
  std::string name{};                // in Python
  std::vector<StackFrame> frames{};  // innermost first; each is `python`
  bool owns_gil = false;             // it runs Python now; the others wait for that
  bool operator==(const PythonThread&) const = default;
};

/// Parse what `py-spy dump --json` writes.
Result<std::vector<PythonThread>> parse_python_threads(std::string_view text);

/// Put Python's frames where those of the interpreter are: below what Python has called, such as a
/// library's functions, and above what has called Python. Note who holds the interpreter's lock.
void add_python_frames(ProcessStacks& stacks, const std::vector<PythonThread>& threads);

}  // namespace train
