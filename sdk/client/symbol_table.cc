#include "sdk/client/symbol_table.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace train::sdk {
namespace {

using namespace std::string_view_literals;

template <std::size_t N>
bool starts_with_any(std::string_view text, const std::array<std::string_view, N>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

/// An ELF file of this machine, mapped for the lifetime of this object. Reads beyond its end are
/// empty.
class ElfFile {
 public:
  explicit ElfFile(const char* path) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat info {};
    if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      void* bytes =
          ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (bytes != MAP_FAILED)
        bytes_ = {static_cast<const char*>(bytes), static_cast<std::size_t>(info.st_size)};
    }
    ::close(file);
  }
  ~ElfFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  /// Return the name of the function that contains `address`, which is relative to where the file
  /// is loaded.
  std::string function_at(std::size_t address) const {
    const std::span<const ElfW(Ehdr)> header = at<ElfW(Ehdr)>(0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
    const auto sections = at<ElfW(Shdr)>(header[0].e_shoff, header[0].e_shnum);
    for (const ElfW(Shdr) & section : sections) {
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
      const std::span<const char> names =
          at<char>(sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size);
      for (const ElfW(Sym) & symbol :
           at<ElfW(Sym)>(section.sh_offset, section.sh_size / sizeof(ElfW(Sym)))) {
        if ((symbol.st_info & 0xf) != STT_FUNC || address < symbol.st_value ||
            address - symbol.st_value >= symbol.st_size)
          continue;
        if (symbol.st_name >= names.size()) return {};
        return {&names[symbol.st_name],
                ::strnlen(&names[symbol.st_name], names.size() - symbol.st_name)};
      }
    }
    return {};
  }

 private:
  template <class T>
  std::span<const T> at(std::size_t offset, std::size_t count) const {
    if (offset % alignof(T) != 0 || offset > bytes_.size() ||
        count > (bytes_.size() - offset) / sizeof(T))
      return {};
    return {reinterpret_cast<const T*>(bytes_.data() + offset), count};
  }

  std::span<const char> bytes_;
};

bool is_program(const Dl_info& module) {
  Dl_info program{};
  return ::dladdr(std::bit_cast<const void*>(::getauxval(AT_PHDR)), &program) != 0 &&
         program.dli_fbase == module.dli_fbase;
}

/// Return what was added to the file's addresses when it was loaded.
std::size_t load_offset(const Dl_info& module) {
  const auto base = reinterpret_cast<std::size_t>(module.dli_fbase);
  const auto* header = static_cast<const ElfW(Ehdr)*>(module.dli_fbase);
  return header->e_type == ET_EXEC ? 0 : base;
}

}  // namespace

std::string CodeLocation::function() const {
  int status = 0;
  char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : symbol;
  std::free(name);
  return text;
}

CodeLocation location_of(const void* address) {
  Dl_info module{};
  if (::dladdr(address, &module) == 0 || module.dli_fname == nullptr) return {};
  CodeLocation location;
  const char* slash = std::strrchr(module.dli_fname, '/');
  location.module = slash == nullptr ? module.dli_fname : slash + 1;
  location.offset = reinterpret_cast<std::size_t>(address) - load_offset(module);
  location.symbol = ElfFile(is_program(module) ? "/proc/self/exe" : module.dli_fname)
                        .function_at(location.offset);
  if (location.symbol.empty() && module.dli_sname != nullptr) location.symbol = module.dli_sname;
  return location;
}

bool is_programs_own(const CodeLocation& location) {
  static constexpr std::array kLibraries = {
      "libc.so"sv,    "libc-"sv,    "libstdc++"sv,   "libm.so"sv,  "libgcc"sv,
      "libpthread"sv, "ld-linux"sv, "libtrainrun"sv, "libtorch"sv, "libc10"sv,
      "libgomp"sv,    "libarrow"sv, "libparquet"sv};
  // std::, train::, torch::, c10:: and at::, as the linker names their functions
  static constexpr std::array kNamespaces = {
      "_ZSt"sv,       "_ZNSt"sv,     "_ZNKSt"sv,     "_ZN9__gnu_cxx"sv, "_ZN5train"sv,
      "_ZNK5train"sv, "_ZN5torch"sv, "_ZNK5torch"sv, "_ZN3c10"sv,       "_ZNK3c10"sv,
      "_ZN2at"sv,     "_ZNK2at"sv,   "_start"sv,     "__libc_start"sv};
  if (location.module.empty() || starts_with_any(location.module, kLibraries)) return false;
  // For a std::function that holds a lambda, the compiler has often put the lambda's own code
  // there.
  const bool holds_lambda = location.symbol.find("9_M_invoke") != std::string::npos &&
                            location.symbol.find("Ul") != std::string::npos;
  return holds_lambda || !starts_with_any(location.symbol, kNamespaces);
}

}  // namespace train::sdk
