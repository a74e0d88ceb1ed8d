#include "lib/stacks/unwind/symbol_index.h"

#include <elf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>

namespace train {
namespace {

// Functions whose assembler gives no size reach to the next symbol, but not further than this.
constexpr std::uint64_t kUnsizedBytesMax = 64u << 10;
constexpr std::size_t kSymbolsMax = 16u << 20;
constexpr std::size_t kFilesMax = 2;  // the file, and its debug information
// A symbol may lie within a larger one: look so far back for one that covers an address.
constexpr int kLookBack = 16;

struct Section {
  Elf_Scn* scn = nullptr;
  GElf_Shdr header{};
};

Section section_of_type(Elf* elf, std::uint32_t type) {
  for (Elf_Scn* scn = elf_nextscn(elf, nullptr); scn != nullptr; scn = elf_nextscn(elf, scn)) {
    GElf_Shdr header{};
    if (gelf_getshdr(scn, &header) != nullptr && header.sh_type == type &&
        header.sh_entsize == sizeof(Elf64_Sym))
      return {scn, header};
  }
  return {};
}

std::string_view bytes_of(Elf_Scn* scn) {
  const Elf_Data* data = scn == nullptr ? nullptr : elf_rawdata(scn, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const char*>(data->d_buf), data->d_size};
}

bool is_function(const Elf64_Sym& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
  return code && symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE &&
         symbol.st_name != 0;
}

std::uint8_t rank_of(const Elf64_Sym& symbol) {
  const unsigned bind = ELF64_ST_BIND(symbol.st_info);
  const unsigned untyped = ELF64_ST_TYPE(symbol.st_info) == STT_NOTYPE ? 4 : 0;
  const unsigned binding = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
  return static_cast<std::uint8_t>(untyped + binding);
}

}  // namespace

void SymbolIndex::add(ElfFile file) {
  Elf* elf = file.get();
  if (elf == nullptr || gelf_getclass(elf) != ELFCLASS64 || names_.size() == kFilesMax) return;
  Section table = section_of_type(elf, SHT_SYMTAB);
  if (table.scn == nullptr) table = section_of_type(elf, SHT_DYNSYM);
  if (table.scn == nullptr) return;
  const std::string_view symbols = bytes_of(table.scn);
  const std::string_view names = bytes_of(elf_getscn(elf, table.header.sh_link));
  const auto number = static_cast<std::uint8_t>(names_.size());
  const std::size_t count = std::min(symbols.size() / sizeof(Elf64_Sym), kSymbolsMax);
  for (std::size_t i = 0; i < count && symbols_.size() < kSymbolsMax; ++i) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, symbols.data() + i * sizeof symbol, sizeof symbol);
    if (!is_function(symbol) || symbol.st_name >= names.size()) continue;
    symbols_.push_back({.address = symbol.st_value,
                        .size = symbol.st_size,
                        .name = symbol.st_name,
                        .file = number,
                        .rank = rank_of(symbol)});
  }
  names_.push_back({std::move(file), names});
}

void SymbolIndex::finish() {
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.rank > b.rank;
  });
}

std::string_view SymbolIndex::name_at(std::uint64_t address) const {
  const auto after = std::upper_bound(
      symbols_.begin(), symbols_.end(), address,
      [](std::uint64_t value, const Symbol& symbol) { return value < symbol.address; });
  auto found = symbols_.end();
  int left = kLookBack;
  for (auto it = after; it != symbols_.begin() && left > 0; --left) {
    --it;
    const std::uint64_t distance = address - it->address;
    if (distance < it->size) {
      found = it;
      break;
    }
    const bool nearest_unsized = it->size == 0 && it->address == std::prev(after)->address;
    if (nearest_unsized && distance < kUnsizedBytesMax && found == symbols_.end()) found = it;
  }
  return found == symbols_.end() ? std::string_view() : name_of(*found);
}

std::string_view SymbolIndex::name_of(const Symbol& symbol) const {
  const std::string_view rest = names_[symbol.file].bytes.substr(symbol.name);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace train
