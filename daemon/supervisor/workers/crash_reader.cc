#include "daemon/supervisor/workers/crash_reader.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lib/base/terminal_text.h"
#include "lib/stacks/crash_place.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/take_stacks.h"

namespace train {
namespace {

constexpr std::size_t kPc = 16, kStackPointer = 7;  // DWARF numbers of x86-64

/// A copy that no longer changes.
struct Copy {
  Copy() : bytes(sizeof(CrashRecord), '\0') {}
  const CrashRecord& record() const { return *reinterpret_cast<const CrashRecord*>(bytes.data()); }
  std::string bytes;
};

/// Keep what an unwinder needs of the mappings: files, as many as it takes.
std::vector<MappedRange> mappings_in(std::string_view maps) {
  std::vector<MappedRange> mappings = parse_maps(maps);
  std::erase_if(mappings, [](const MappedRange& range) {
    return range.path.size() > kMappingPathBytesMax || (range.inode == 0 && !range.executable);
  });
  if (mappings.size() > kCapturedMappingsMax) mappings.resize(kCapturedMappingsMax);
  return mappings;
}

}  // namespace

std::optional<ProcessCapture> crash_capture(const CrashRecord& shared, int signal) {
  if (shared.state.load(std::memory_order_acquire) != CrashRecord::kComplete) return std::nullopt;
  const auto copy = std::make_unique<Copy>();
  std::memcpy(copy->bytes.data(), static_cast<const void*>(&shared), sizeof shared);
  const CrashRecord& record = copy->record();
  if (record.signal != signal) return std::nullopt;
  ThreadCapture thread;
  thread.facts.tid = record.tid;
  thread.facts.name = std::string(record.thread_name.data(),
                                  ::strnlen(record.thread_name.data(), record.thread_name.size()));
  thread.registers.assign(record.registers.begin(), record.registers.end());
  thread.pc = record.registers[kPc];
  thread.sp = record.registers[kStackPointer];
  thread.stack_start = record.stack_start;
  thread.stack.assign(record.stack.data(),
                      std::min<std::uint64_t>(record.stack_bytes, record.stack.size()));
  ProcessCapture capture{.pid = record.pid, .ended = true, .machine = EM_X86_64};
  capture.mappings = mappings_in(
      {record.maps.data(), std::min<std::uint64_t>(record.maps_bytes, record.maps.size())});
  capture.threads.push_back(std::move(thread));
  return capture;
}

std::vector<CrashStack> crash_stacks(const std::vector<ProcessCapture>& captures,
                                     TimePoint deadline) {
  std::vector<CrashStack> crashes;
  for (const ProcessStacks& stacks : unwind_captures(captures, deadline)) {
    CrashStack& crash = crashes.emplace_back();
    if (stacks.threads.empty()) continue;
    const ThreadStack& thread = stacks.threads.front();
    crash.place = describe_crash_place(thread.frames);
    crash.frames = describe_crash_stack(thread);
    if (!thread.frames.empty()) continue;
    for (const std::string& note : stacks.notes) crash.frames += terminal_safe(note) + "\n";
  }
  return crashes;
}

}  // namespace train
