// The functions of one file, sorted by address. One index serves all processes that have mapped
// the file. libdwfl searches all symbols for each address instead, and libtorch_cpu.so has 553,539.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/stacks/unwind/elf_file.h"

namespace train {

class SymbolIndex {
 public:
  /// Add the functions of an ELF file's symbol table (or of its dynamic symbols if it has been
  /// stripped), and keep the file open for their names. Malformed symbols are left out.
  void add(ElfFile file);
  /// Sort what was added. Call it before name_at().
  void finish();

  /// Return the mangled name of the function at an address of the file, or "".
  std::string_view name_at(std::uint64_t address) const;

 private:
  struct Symbol {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint32_t name = 0;  // its place in the names of its file
    std::uint8_t file = 0;
    std::uint8_t rank = 0;  // of names of one address, the lowest is shown
  };
  struct Names {
    ElfFile file;
    std::string_view bytes;
  };
  std::string_view name_of(const Symbol& symbol) const;

  std::vector<Symbol> symbols_;
  std::vector<Names> names_;
};

}  // namespace train
