// Finds the names of the program's functions in the symbol tables of its files: -rdynamic is not
// needed, and a stripped program has no names. Not for signal handlers.
#pragma once

#include <string>

namespace train::sdk {

/// The place of an address in a module.
struct CodeLocation {
  std::string module;            // the file's name without its folder; "" if the address is in none
  std::size_t offset = 0;        // in the module, as addr2line wants it
  std::string symbol;            // as the linker has it; "" if unknown
  std::string function() const;  // the symbol as written in C++
};

/// Return where `address` lies.
CodeLocation location_of(const void* address);

/// Return whether the place is the program's own: neither in the libraries that it uses (C, C++,
/// LibTorch, Arrow, the SDK), nor in functions of theirs that were compiled into it.
bool is_programs_own(const CodeLocation& location);

}  // namespace train::sdk
