// libdwfl over a captured process instead of a live one: its modules are the files that the process
// had mapped, its memory is the copied stacks and the files' constant parts.
#pragma once

#include <elfutils/libdwfl.h>

#include <optional>
#include <string_view>
#include <vector>

#include "lib/stacks/process_capture.h"
#include "lib/stacks/unwind/code_modules.h"

namespace train {

/// A function's activation as libdwfl finds it.
struct RawFrame {
  std::uint64_t pc = 0;
  std::uint64_t sp = 0;  // 0: unknown
  std::uint64_t bp = 0;
  bool interrupted = false;  // pc is the next instruction, not a return address
  bool guessed = false;
};

class DwflSession {
 public:
  DwflSession(const ProcessCapture& capture, const OpenMappedFile& open);
  ~DwflSession();
  DwflSession(const DwflSession&) = delete;
  DwflSession& operator=(const DwflSession&) = delete;

  /// Return whether threads can be unwound: at least one file was found.
  bool attached() const { return attached_; }
  CodeModules& modules() { return modules_; }

  /// Return the bytes of constant memory at an address up to `bytes_max`, as the module's file has
  /// them, or "".
  std::string_view constant_memory(std::uint64_t address, std::size_t bytes_max);

  struct Walk {
    std::vector<RawFrame> frames{};
    bool reached_end = false;  // the outermost function says that nothing called it
  };
  /// Unwind a stack from these registers. `goes_on` sees each frame before it is added, and ends
  /// the walk by returning false.
  Walk walk(const ThreadCapture& thread, const std::vector<std::uint64_t>& registers,
            const std::function<bool(const RawFrame&)>& goes_on);

  // The callbacks of libdwfl.
  bool read_memory(std::uint64_t address, std::uint64_t& value);
  bool set_registers(Dwfl_Thread* thread) const;
  int open_module(CodeModule& module, char** path, Elf** elf) const;

 private:
  const ProcessCapture& capture_;
  const OpenMappedFile& open_;
  CodeModules modules_;
  struct ModuleOfSession {
    DwflSession* session;
    CodeModule* module;
  };
  std::vector<ModuleOfSession> owners_;
  Dwfl* dwfl_ = nullptr;
  bool attached_ = false;
  const ThreadCapture* thread_ = nullptr;  // that walk() unwinds
  const std::vector<std::uint64_t>* registers_ = nullptr;

  friend int find_module_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**);
};

}  // namespace train
