// The entries by which the program and its libraries call functions of other libraries (the global
// offset tables of ELF): replaces a function by another one while the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace train::sdk {

struct Replacement {
  const char* name = "";        // of the function
  std::uintptr_t original = 0;  // its address
  std::uintptr_t ours = 0;
};

struct EntriesChanged {
  std::size_t entries = 0;   // that have changed
  bool complete = true;      // false: a library is just being loaded, so look again soon
  std::uint64_t loaded = 0;  // how many libraries have been loaded since the program began
};

/// Return the address that a call of this function leads to, or 0.
std::uintptr_t address_of_function(const char* name);

/// Let the entries that lead to an original function lead to ours. Entries of functions that have
/// not been called yet are changed as well. Each entry is changed at once, while other threads use
/// it. Entries that lead elsewhere stay as they are: such a library has an allocator of its own.
/// A library that is loaded later has entries of its own.
EntriesChanged replace_functions(std::span<const Replacement> functions);
/// Let the entries that lead to our functions lead to the originals again.
EntriesChanged restore_functions(std::span<const Replacement> functions);
/// Return how many libraries have been loaded since the program began.
std::uint64_t libraries_loaded();

}  // namespace train::sdk
