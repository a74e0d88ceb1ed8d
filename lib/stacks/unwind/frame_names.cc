#include "lib/stacks/unwind/frame_names.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kMangledBytesMax = 4096;

struct SourceLine {
  std::string file{};
  std::uint32_t line = 0;
};

std::string identity_of(const CodeModule& module) {
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int size = dwfl_module_build_id(module.dwfl, &bits, &where);
  if (size > 0) return std::string(reinterpret_cast<const char*>(bits), std::size_t(size));
  return fmt::format("{:x}:{}", module.first->device, module.first->inode);
}

std::string text_of(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  const char* text =
      dwarf_attr_integrate(die, attribute, &found) == nullptr ? nullptr : dwarf_formstring(&found);
  return text == nullptr ? "" : text;
}

/// Return the full name of a function, or "" if its entry has only a name without its namespace.
std::string full_name(Dwarf_Die* die) {
  std::string name = text_of(die, DW_AT_linkage_name);
  if (name.empty()) name = text_of(die, DW_AT_MIPS_linkage_name);
  return name.empty() ? "" : demangled(name);
}

std::string short_name(Dwarf_Die* die) {
  const char* name = dwarf_diename(die);
  return name == nullptr ? "" : utf8_text(name, kFunctionNameBytesMax);
}

SourceLine line_at(const CodeModule& module, std::uint64_t address) {
  SourceLine source;
  Dwfl_Line* line = dwfl_module_getsrc(module.dwfl, address);
  int number = 0;
  const char* file =
      line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (file == nullptr) return source;
  return {utf8_text(file, kStackTextBytesMax), static_cast<std::uint32_t>(std::max(number, 0))};
}

/// Return where an inlined function was called.
SourceLine call_of(Dwarf_Die* inlined) {
  Dwarf_Attribute found;
  Dwarf_Word file = 0, line = 0;
  Dwarf_Die unit;
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &found), &file) != 0 ||
      dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &found), &line) != 0 ||
      dwarf_diecu(inlined, &unit, nullptr, nullptr) == nullptr ||
      dwarf_getsrcfiles(&unit, &files, &count) != 0 || file >= count)
    return {};
  const char* path = dwarf_filesrc(files, file, nullptr, nullptr);
  if (path == nullptr) return {};
  return {utf8_text(path, kStackTextBytesMax), static_cast<std::uint32_t>(line)};
}

struct FreeScopes {
  void operator()(Dwarf_Die* scopes) const { std::free(scopes); }
};
using Scopes = std::unique_ptr<Dwarf_Die, FreeScopes>;

/// Return the functions at an address as debug information has them: the inlined ones innermost
/// first, and the one that holds the code last. Empty if there is none.
std::vector<StackFrame> functions_at(const CodeModule& module, std::uint64_t address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module.dwfl, address, &bias);
  if (unit == nullptr) return {};
  // The first call finds the innermost scope, but follows inlined functions to their definitions;
  // the second one lists what surrounds that scope in the code.
  Dwarf_Die* found = nullptr;
  if (dwarf_getscopes(unit, address - bias, &found) <= 0) return {};
  const Scopes innermost(found);
  found = nullptr;
  const int count = dwarf_getscopes_die(innermost.get(), &found);
  const Scopes scopes(found);
  std::vector<StackFrame> frames;
  SourceLine at = line_at(module, address);
  for (int i = 0; i < count; ++i) {
    Dwarf_Die* die = scopes.get() + i;
    const int tag = dwarf_tag(die);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    const bool inlined = tag == DW_TAG_inlined_subroutine;
    StackFrame frame{.file = at.file, .line = at.line, .inlined = inlined};
    frame.function = full_name(die);
    if (frame.function.empty() && inlined) frame.function = short_name(die);
    frames.push_back(std::move(frame));
    if (!inlined) break;
    at = call_of(die);
  }
  return frames;
}

/// Write std::string as users write it.
std::string with_short_strings(std::string_view name) {
  constexpr std::string_view kString =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  std::string out;
  for (std::size_t at = name.find(kString); at != name.npos; at = name.find(kString)) {
    out += name.substr(0, at);
    out += "std::string";
    name.remove_prefix(at + kString.size());
  }
  return out += name;
}

}  // namespace

std::string demangled(std::string_view symbol) {
  const std::string name(symbol.substr(0, kMangledBytesMax));
  if (!name.starts_with("_Z") || name.size() == kMangledBytesMax)
    return utf8_text(name, kFunctionNameBytesMax);
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string readable =
      utf8_text(status == 0 ? with_short_strings(text) : name, kFunctionNameBytesMax);
  std::free(text);
  return readable;
}

std::vector<StackFrame> FrameNames::frames_of(const RawFrame& raw, DwflSession& session,
                                              const ProcessCapture& capture) {
  StackFrame unnamed{.pc = raw.pc, .guessed = raw.guessed};
  // A return address may be behind the end of its function, if that never returns from the call.
  const std::uint64_t address = raw.interrupted || raw.pc == 0 ? raw.pc : raw.pc - 1;
  const CodeModule* module = session.modules().at(address);
  if (module == nullptr) {
    if (session.modules().executable(address)) unnamed.function = "jit";
    return {unnamed};
  }
  unnamed.module = utf8_text(module->name, 255);
  unnamed.offset = raw.pc - module->start + module->first->offset;
  GElf_Addr bias = 0;
  if (module->dwfl == nullptr || dwfl_module_getelf(module->dwfl, &bias) == nullptr)
    return {unnamed};
  unnamed.offset = raw.pc - bias;
  File& file = files_[identity_of(*module)];
  const auto [known, is_new] = file.frames.try_emplace(address - bias);
  if (is_new) known->second = lookup(file, *module, address, bias, capture);
  std::vector<StackFrame> frames = known->second;
  for (StackFrame& frame : frames) {
    frame.pc = raw.pc;
    frame.module = unnamed.module;
    frame.offset = unnamed.offset;
    frame.guessed = raw.guessed;
  }
  return frames;
}

std::vector<StackFrame> FrameNames::lookup(File& file, const CodeModule& module,
                                           std::uint64_t address, std::uint64_t bias,
                                           const ProcessCapture& capture) {
  std::vector<StackFrame> frames = functions_at(module, address);
  if (frames.empty() || frames.back().inlined) {
    const SourceLine at = line_at(module, address);
    frames.push_back({.file = frames.empty() ? at.file : "", .line = frames.empty() ? at.line : 0});
  }
  if (frames.back().function.empty())
    frames.back().function = symbol_name(file, module, address - bias, capture);
  return frames;
}

std::string FrameNames::symbol_name(File& file, const CodeModule& module, std::uint64_t address,
                                    const ProcessCapture& capture) {
  if (!file.indexed) {
    file.indexed = true;
    if (module.bytes != nullptr) {
      file.symbols.add(ElfFile(*module.bytes));
    } else {
      file.symbols.add(ElfFile(open_(capture, *module.first)));
      const char* debug = nullptr;
      dwfl_module_info(module.dwfl, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &debug);
      if (debug != nullptr && debug != module.first->path)
        file.symbols.add(ElfFile(FileDescriptor(::open(debug, O_RDONLY | O_CLOEXEC))));
    }
    file.symbols.finish();
  }
  return demangled(file.symbols.name_at(address));
}

}  // namespace train
