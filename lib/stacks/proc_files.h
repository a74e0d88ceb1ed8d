// Reads what /proc tells about another process and its threads, bounded. No call needs the process
// to stop; each may block as long as the kernel holds its memory map, so none belongs on a thread
// that others wait for.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/stacks/process_capture.h"

namespace train {

/// Return at most `bytes_max` bytes of a file, or "" if it cannot be read.
std::string read_proc_text(const std::string& path, std::size_t bytes_max);

/// Return the path of the program that a process runs, or "".
std::string executable_of(pid_t pid);

/// Return the threads of a process, the main thread first, the others ascending. NotFound if there
/// is no such process.
Result<std::vector<pid_t>> threads_of(pid_t pid);

/// Return the state of a thread, and in which call it waits. The state is '?' if it has ended.
ThreadFacts thread_facts(pid_t pid, pid_t tid);
/// Return the state of a thread, or '?' if it has ended.
char thread_state(pid_t pid, pid_t tid);
/// Return where a thread waits in a system call: the call's arguments, the stack pointer and the
/// program counter, as text. "" if it is in no call, or we may not know.
std::string waiting_place(pid_t pid, pid_t tid);
/// Return the thread's stack in the kernel if we may read it (root may), else "".
std::string kernel_stack(pid_t pid, pid_t tid);
/// Return the process that traces a thread (a debugger), or 0.
pid_t tracer_of(pid_t pid, pid_t tid);

/// Parse the text of /proc/PID/maps; lines that are not complete are left out.
std::vector<MappedRange> parse_maps(std::string_view text);
/// Return all mappings of a process, ascending.
std::vector<MappedRange> mappings_of(pid_t pid);

}  // namespace train
