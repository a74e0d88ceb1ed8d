#include "lib/stacks/unwind/dwfl_session.h"

#include <elf.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

namespace train {
namespace {

constexpr int kBasePointer = 6, kStackPointer = 7;  // DWARF numbers of x86-64

/// Check that a file is a program or library for this capture's processor: libdwfl treats other
/// ELF files, such as object files, in other ways.
bool is_loadable(int fd, std::uint16_t machine) {
  Elf64_Ehdr header{};
  return ::pread(fd, &header, sizeof header, 0) == sizeof header &&
         ::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == machine &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

pid_t no_next_thread(Dwfl*, void*, void**) { return 0; }

bool get_thread(Dwfl*, pid_t, void* session, void** thread) {
  *thread = session;
  return true;
}

bool memory_read(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* session) {
  std::uint64_t value = 0;
  const bool read = static_cast<DwflSession*>(session)->read_memory(address, value);
  *result = value;
  return read;
}

bool set_initial_registers(Dwfl_Thread* thread, void* session) {
  return static_cast<const DwflSession*>(session)->set_registers(thread);
}

constexpr Dwfl_Thread_Callbacks kThreadCallbacks{.next_thread = no_next_thread,
                                                 .get_thread = get_thread,
                                                 .memory_read = memory_read,
                                                 .set_initial_registers = set_initial_registers,
                                                 .detach = nullptr,
                                                 .thread_detach = nullptr};

RawFrame frame_of(Dwfl_Frame* state) {
  RawFrame frame;
  Dwarf_Addr pc = 0;
  Dwarf_Word value = 0;
  if (dwfl_frame_pc(state, &pc, &frame.interrupted)) frame.pc = pc;
  if (dwfl_frame_reg(state, kStackPointer, &value) == 0) frame.sp = value;
  if (dwfl_frame_reg(state, kBasePointer, &value) == 0) frame.bp = value;
  return frame;
}

struct Walking {
  DwflSession::Walk walk{};
  const std::function<bool(const RawFrame&)>& goes_on;
};

int take_frame(Dwfl_Frame* state, void* argument) {
  auto& walking = *static_cast<Walking*>(argument);
  const RawFrame frame = frame_of(state);
  if (!walking.goes_on(frame)) return DWARF_CB_ABORT;
  walking.walk.frames.push_back(frame);
  return DWARF_CB_OK;
}

}  // namespace

int find_module_elf(Dwfl_Module*, void** owner, const char*, Dwarf_Addr, char** path, Elf** elf) {
  const auto* of = static_cast<DwflSession::ModuleOfSession*>(*owner);
  return of == nullptr ? -1 : of->session->open_module(*of->module, path, elf);
}

DwflSession::DwflSession(const ProcessCapture& capture, const OpenMappedFile& open)
    : capture_(capture), open_(open), modules_(capture) {
  static char* no_path = nullptr;
  static const Dwfl_Callbacks callbacks{.find_elf = find_module_elf,
                                        .find_debuginfo = dwfl_build_id_find_debuginfo,
                                        .section_address = nullptr,
                                        .debuginfo_path = &no_path};
  elf_version(EV_CURRENT);
  dwfl_ = dwfl_begin(&callbacks);
  if (dwfl_ == nullptr) return;
  dwfl_report_begin(dwfl_);
  owners_.reserve(modules_.all().size());  // libdwfl keeps pointers to its elements
  for (CodeModule& module : modules_.all()) {
    module.dwfl = dwfl_report_module(dwfl_, module.name.c_str(), module.start, module.end);
    if (module.dwfl == nullptr) continue;
    void** owner = nullptr;
    dwfl_module_info(module.dwfl, &owner, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    owners_.push_back({this, &module});
    *owner = &owners_.back();
  }
  dwfl_report_end(dwfl_, nullptr, nullptr);
  attached_ = dwfl_attach_state(dwfl_, nullptr, ::getpid(), &kThreadCallbacks, this);
}

DwflSession::~DwflSession() {
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
}

int DwflSession::open_module(CodeModule& module, char** path, Elf** elf) const {
  if (module.bytes != nullptr) {
    // libelf does not write to it.
    *elf = elf_memory(const_cast<char*>(module.bytes->data()), module.bytes->size());
    return -1;
  }
  // Otherwise we do not know how its addresses relate to those in the file.
  if (module.first->offset != 0) return -1;
  FileDescriptor file = open_(capture_, *module.first);
  if (file.get() < 0 || !is_loadable(file.get(), capture_.machine)) return -1;
  *path = ::strdup(module.first->path.c_str());  // which libdwfl frees
  return file.release();
}

std::string_view DwflSession::constant_memory(std::uint64_t address, std::size_t bytes_max) {
  const CodeModule* module = modules_.at(address);
  if (module == nullptr || module->dwfl == nullptr) return {};
  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module->dwfl, &bias);
  std::size_t count = 0, file_size = 0;
  const char* file = elf == nullptr ? nullptr : elf_rawfile(elf, &file_size);
  if (file == nullptr || elf_getphdrnum(elf, &count) != 0) return {};
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr segment{};
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
    const std::uint64_t at = address - bias - segment.p_vaddr;
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0 || at >= segment.p_filesz)
      continue;
    if (segment.p_offset >= file_size || at >= file_size - segment.p_offset) return {};
    const std::uint64_t left = std::min(segment.p_filesz - at, file_size - segment.p_offset - at);
    return {file + segment.p_offset + at, std::min<std::size_t>(left, bytes_max)};
  }
  return {};
}

bool DwflSession::read_memory(std::uint64_t address, std::uint64_t& value) {
  std::string_view bytes;
  if (thread_ != nullptr && address >= thread_->stack_start &&
      address - thread_->stack_start < thread_->stack.size())
    bytes = std::string_view(thread_->stack).substr(address - thread_->stack_start);
  else
    bytes = constant_memory(address, sizeof value);
  if (bytes.size() < sizeof value) return false;
  ::memcpy(&value, bytes.data(), sizeof value);  // of a process of this machine: its byte order
  return true;
}

bool DwflSession::set_registers(Dwfl_Thread* thread) const {
  const std::vector<Dwarf_Word> words(registers_->begin(), registers_->end());
  return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(words.size()), words.data());
}

DwflSession::Walk DwflSession::walk(const ThreadCapture& thread,
                                    const std::vector<std::uint64_t>& registers,
                                    const std::function<bool(const RawFrame&)>& goes_on) {
  Walking walking{.walk = {}, .goes_on = goes_on};
  if (!attached_) return {};
  thread_ = &thread;
  registers_ = &registers;
  constexpr pid_t kAnyThread = 1;  // get_thread() gives our session for each
  walking.walk.reached_end = dwfl_getthread_frames(dwfl_, kAnyThread, take_frame, &walking) == 0;
  thread_ = nullptr;
  return std::move(walking.walk);
}

}  // namespace train
