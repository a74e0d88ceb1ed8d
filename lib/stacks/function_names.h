// What the name of a function tells about where a thread is: short enough to compare and to read,
// and whether it is a wait or machinery between the functions that matter. Pure.
#pragma once

#include <string>
#include <string_view>

namespace train {

/// Return a demangled name without return type, parameters, template arguments and anonymous
/// namespaces: "c10d::Work::wait" of "bool c10d::Work::wait(std::chrono::duration<long>)".
std::string short_function_name(std::string_view function);

/// Return the name by which users know a function of the C library: "read" of "__GI___libc_read".
std::string_view public_name(std::string_view short_name);

/// Return whether a function waits: a system call's wrapper, a lock, a condition. What it calls
/// says nothing more. Takes short names.
bool is_wait(std::string_view short_name);

/// Return whether a function is machinery of a runtime or a dispatcher, which tells nobody where a
/// thread is. Takes short names.
bool is_machinery(std::string_view short_name);

/// Return whether a function only passes on a request for memory: malloc, operator new, an
/// allocator. Takes short names.
bool is_allocator(std::string_view short_name);

/// Return whether a function is part of a collective call of LibTorch, Gloo, NCCL, MPI or our SDK,
/// or waits for a GPU, on which one may run. Takes short names.
bool is_wait_for_others(std::string_view short_name);

}  // namespace train
