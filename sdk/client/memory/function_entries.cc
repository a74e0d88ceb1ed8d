#include "sdk/client/memory/function_entries.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace train::sdk {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT;
#else
constexpr std::uint32_t kJumpSlot = 0, kAddress = 0;  // nothing is ever changed
#endif

struct Range {
  std::uintptr_t start = 0, end = 0;
  bool writable = false;
  bool contains(std::uintptr_t address) const { return start <= address && address < end; }
};

std::uintptr_t parse_hex(std::string_view& text) {
  std::uintptr_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

/// Return what memory is mapped now, in ascending order.
std::vector<Range> memory_map() {
  std::string text;
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char part[8192];
  for (ssize_t got = 0; file >= 0; text.append(part, static_cast<std::size_t>(got))) {
    got = ::read(file, part, sizeof part);
    if (got < 0 && errno == EINTR)
      got = 0;
    else if (got <= 0)
      break;
  }
  if (file >= 0) ::close(file);
  std::vector<Range> ranges;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    Range range{.start = parse_hex(line)};
    if (!line.starts_with('-')) continue;
    line.remove_prefix(1);
    range.end = parse_hex(line);
    range.writable = line.size() > 2 && line[2] == 'w';  // " rw-p"
    ranges.push_back(range);
  }
  return ranges;
}

/// A program or library as the dynamic linker has loaded it.
class LoadedObject {
 public:
  explicit LoadedObject(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      const std::uintptr_t at = base_ + header.p_vaddr;
      if (header.p_type == PT_DYNAMIC) read_dynamic(std::bit_cast<const ElfW(Dyn)*>(at));
      if (header.p_type == PT_LOAD)
        segments_[count_++ % segments_.size()] = {at, at + header.p_memsz};
    }
  }

  bool contains(std::uintptr_t address) const {
    for (const Range& segment : segments_)
      if (segment.contains(address)) return true;
    return false;
  }
  const char* name_of(std::uint32_t symbol) const { return names_ + symbols_[symbol].st_name; }
  bool defines(std::uint32_t symbol) const { return symbols_[symbol].st_shndx != SHN_UNDEF; }

  /// Pass on each entry: its place, and the number of its symbol.
  template <class Visit>
  void for_each_entry(const Visit& visit) const {
    if (names_ == nullptr || symbols_ == nullptr) return;
    for (const std::span<const ElfW(Rela)> table : {jumps_, others_}) {
      for (const ElfW(Rela) & entry : table) {
        const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info));
        if (type != kJumpSlot && type != kAddress) continue;
        visit(*std::bit_cast<std::uintptr_t*>(base_ + entry.r_offset),
              static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info)));
      }
    }
  }

 private:
  void read_dynamic(const ElfW(Dyn) * entry) {
    std::uintptr_t jumps = 0, others = 0;
    std::size_t jumps_bytes = 0, others_bytes = 0, relative = 0;
    bool with_addends = true;
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_STRTAB:
          names_ = std::bit_cast<const char*>(loaded(entry->d_un.d_ptr));
          break;
        case DT_SYMTAB:
          symbols_ = std::bit_cast<const ElfW(Sym)*>(loaded(entry->d_un.d_ptr));
          break;
        case DT_JMPREL:
          jumps = loaded(entry->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          jumps_bytes = entry->d_un.d_val;
          break;
        case DT_RELA:
          others = loaded(entry->d_un.d_ptr);
          break;
        case DT_RELASZ:
          others_bytes = entry->d_un.d_val;
          break;
        case DT_RELACOUNT:
          relative = entry->d_un.d_val;
          break;
        case DT_PLTREL:
          with_addends = entry->d_un.d_val == DT_RELA;
          break;
        default:
          break;
      }
    }
    constexpr std::size_t kEntry = sizeof(ElfW(Rela));
    if (jumps != 0 && with_addends)
      jumps_ = {std::bit_cast<const ElfW(Rela)*>(jumps), jumps_bytes / kEntry};
    if (others != 0) others_ = {std::bit_cast<const ElfW(Rela)*>(others), others_bytes / kEntry};
    // Those that need no symbol come first, and are almost all.
    others_ = others_.subspan(std::min(relative, others_.size()));
  }
  /// The dynamic linker has added the base to these addresses, but not to those of the vDSO.
  std::uintptr_t loaded(std::uintptr_t address) const {
    return address < base_ ? base_ + address : address;
  }

  std::uintptr_t base_;
  std::array<Range, 16> segments_{};
  std::size_t count_ = 0;
  const char* names_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  std::span<const ElfW(Rela)> jumps_, others_;
};

/// A change of all entries, as the dynamic linker passes them on, while nothing is loaded or
/// unloaded. It may be that something just was: then the linker still writes to its memory.
struct Change {
  std::span<const Replacement> functions;
  bool restores = false;
  std::vector<Range> map = {};
  std::uintptr_t page_bytes = 4096;
  EntriesChanged changed = {};

  static int visit(dl_phdr_info* info, std::size_t, void* self) {
    auto& change = *static_cast<Change*>(self);
    change.changed.loaded = info->dlpi_adds;
    const LoadedObject object(*info);
    object.for_each_entry([&](std::uintptr_t& entry, std::uint32_t symbol) {
      const char* name = object.name_of(symbol);
      for (const Replacement& one : change.functions)
        if (std::strcmp(name, one.name) == 0) change.look_at(object, entry, symbol, one);
    });
    return 0;
  }

  void look_at(const LoadedObject& object, std::uintptr_t& entry, std::uint32_t symbol,
               const Replacement& one) {
    const auto place = reinterpret_cast<std::uintptr_t>(&entry);
    const Range* range = range_of(place);
    if (range == nullptr) {  // it was loaded after we had read the map
      changed.complete = false;
      return;
    }
    const std::uintptr_t now = std::atomic_ref(entry).load(std::memory_order_relaxed);
    if (restores) {
      if (now == one.ours) set(*range, entry, now, one.original);
      return;
    }
    // Before the first call, an entry leads to code of its own object, which asks for the function.
    const bool asks = now != one.ours && object.contains(now) &&
                      (!object.defines(symbol) || object.contains(one.original));
    if (now == one.original || asks) set(*range, entry, now, one.ours);
  }

  void set(const Range& range, std::uintptr_t& entry, std::uintptr_t now, std::uintptr_t wanted) {
    // Read-only entries are those that the dynamic linker has finished with ("RELRO").
    const auto page =
        std::bit_cast<void*>(reinterpret_cast<std::uintptr_t>(&entry) & ~(page_bytes - 1));
    if (!range.writable && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
    // Another thread may just make its first call, and write the entry as well.
    if (std::atomic_ref(entry).compare_exchange_strong(now, wanted, std::memory_order_release))
      ++changed.entries;
    else
      changed.complete = false;
    if (!range.writable) ::mprotect(page, page_bytes, PROT_READ);
  }

  const Range* range_of(std::uintptr_t address) const {
    const auto after =
        std::upper_bound(map.begin(), map.end(), address,
                         [](std::uintptr_t at, const Range& one) { return at < one.start; });
    if (after == map.begin() || !std::prev(after)->contains(address)) return nullptr;
    return &*std::prev(after);
  }
};

EntriesChanged change_all(std::span<const Replacement> functions, bool restores) {
  Change change{.functions = functions, .restores = restores, .map = memory_map()};
  change.page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::dl_iterate_phdr(Change::visit, &change);
  return change.changed;
}

}  // namespace

std::uintptr_t address_of_function(const char* name) {
  void* found = ::dlsym(RTLD_DEFAULT, name);
  // A program that is not position-independent may give a function an address of its own, where it
  // only jumps on through its entry: calling that from our function would not end.
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (found != nullptr &&
      ::dladdr1(found, &info, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                RTLD_DL_SYMENT) != 0 &&
      symbol != nullptr && symbol->st_shndx == SHN_UNDEF)
    found = ::dlsym(RTLD_NEXT, name);
  return reinterpret_cast<std::uintptr_t>(found);
}

EntriesChanged replace_functions(std::span<const Replacement> functions) {
  return change_all(functions, false);
}
EntriesChanged restore_functions(std::span<const Replacement> functions) {
  return change_all(functions, true);
}

std::uint64_t libraries_loaded() {
  std::uint64_t loaded = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uint64_t*>(to) = info->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

}  // namespace train::sdk
