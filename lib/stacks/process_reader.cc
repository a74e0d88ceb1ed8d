#include "lib/stacks/process_reader.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/stacks/proc_files.h"
#include "lib/stacks/stopped_thread.h"

namespace train {
namespace {

// Below the stack pointer, a function that calls no other may keep data (the ABI's red zone).
constexpr std::uint64_t kRedZoneBytes = 128;

/// Return whether a stack may be read there without waiting for storage, which a mapped file needs.
bool is_memory(const MappedRange& range) {
  const std::string_view path = range.path;
  return !path.starts_with('/') || path.starts_with("/memfd:") || path.starts_with("/dev/zero") ||
         path.starts_with("/anon_hugepage");
}

const MappedRange* mapping_at(const std::vector<MappedRange>& mappings, std::uint64_t address) {
  const auto after = std::upper_bound(
      mappings.begin(), mappings.end(), address,
      [](std::uint64_t value, const MappedRange& range) { return value < range.start; });
  if (after == mappings.begin()) return nullptr;
  const MappedRange& range = *std::prev(after);
  return address < range.end ? &range : nullptr;
}

}  // namespace

ProcessReader::ProcessReader(pid_t pid, std::size_t stack_bytes_max)
    : buffer_(stack_bytes_max, '\0') {
  process_.pid = pid;
#if defined(__x86_64__)
  process_.machine = EM_X86_64;
#endif
  process_.executable = executable_of(pid);
  memory_.reset(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (memory_.get() < 0)
    process_.notes.push_back(system_error(errno, "its memory cannot be read").message);
  read_mappings();
  copy_vdso();
}

bool ProcessReader::is_outdated() const {
  // 0: the memory behind the file has gone. Address 0 of memory that lives is EIO.
  char byte = 0;
  return memory_.get() >= 0 && ::pread(memory_.get(), &byte, 1, 0) == 0;
}

void ProcessReader::read_mappings() {
  if (is_outdated()) return;
  auto mappings = mappings_of(process_.pid);
  if (!mappings.empty()) mappings_ = std::move(mappings);
}

void ProcessReader::copy_vdso() {
  for (const MappedRange& range : mappings_) {
    if (range.path != "[vdso]" || range.end - range.start > kVdsoBytesMax) continue;
    process_.vdso_start = range.start;
    process_.vdso.resize(range.end - range.start);
    const ssize_t size = ::pread(memory_.get(), process_.vdso.data(), process_.vdso.size(),
                                 static_cast<off_t>(range.start));
    process_.vdso.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
}

Result<Unit> ProcessReader::copy(ThreadCapture& thread, Duration stop_wait, std::size_t bytes_max) {
  auto stopped = StoppedThread::stop(thread.facts.tid, stop_wait);
  if (!stopped) return std::move(stopped).error();
  const ThreadRegisters& registers = stopped->registers();
  const std::size_t size = read_stack(registers.sp, thread, bytes_max);
  thread.facts.stopped_for = stopped->resume();
  thread.registers = registers.dwarf;
  thread.pc = registers.pc;
  thread.sp = registers.sp;
  thread.stack.assign(buffer_.data(), size);
  return Unit{};
}

/// Read the stack of a stopped thread into the buffer: fast, it waits for us.
std::size_t ProcessReader::read_stack(std::uint64_t sp, ThreadCapture& thread,
                                      std::size_t bytes_max) {
  const MappedRange* range = mapping_at(mappings_, sp);
  if (range == nullptr) {  // of a thread that began after we read the mappings
    read_mappings();
    range = mapping_at(mappings_, sp);
  }
  if (range == nullptr || !is_memory(*range)) {
    thread.facts.note = "its stack pointer does not point to a stack";
    return 0;
  }
  thread.stack_start = std::max(range->start, sp - std::min(sp, kRedZoneBytes));
  const std::uint64_t wanted = range->end - thread.stack_start;
  const std::uint64_t most = std::min<std::uint64_t>({wanted, buffer_.size(), bytes_max});
  if (most < wanted)
    thread.facts.note =
        fmt::format("{} of {} KiB of its stack were copied", most >> 10, wanted >> 10);
  const ssize_t size =
      ::pread(memory_.get(), buffer_.data(), most, static_cast<off_t>(thread.stack_start));
  return static_cast<std::size_t>(std::max<ssize_t>(size, 0));
}

ProcessCapture ProcessReader::describe() const {
  ProcessCapture process = process_;
  for (const MappedRange& range : mappings_) {
    if (!range.executable && (range.inode == 0 || !range.path.starts_with('/'))) continue;
    if (process.mappings.size() == kCapturedMappingsMax) {
      process.notes.push_back(
          fmt::format("it has more than {} mappings of code and files; functions in the others "
                      "have no name",
                      kCapturedMappingsMax));
      break;
    }
    process.mappings.push_back(range);
  }
  return process;
}

}  // namespace train
