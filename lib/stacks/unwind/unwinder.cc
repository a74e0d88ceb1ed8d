#include "lib/stacks/unwind/unwinder.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/stacks/unwind/stack_walk.h"

namespace train {
namespace {

constexpr std::size_t kRegisters = 17;  // of x86-64: 16 and the return address

void add_note(ThreadFacts& facts, std::string_view note) {
  if (!facts.note.empty()) facts.note += "; ";
  facts.note += note;
}

/// Tell which files are not there any more: their functions have no names.
void note_missing_files(DwflSession& session, ProcessStacks& stacks) {
  for (const CodeModule& module : session.modules().all()) {
    GElf_Addr bias = 0;
    const bool used =
        std::any_of(stacks.threads.begin(), stacks.threads.end(), [&](const ThreadStack& thread) {
          return std::any_of(thread.frames.begin(), thread.frames.end(), [&](const auto& frame) {
            return frame.pc > module.start && frame.pc <= module.end;
          });
        });
    if (!used || module.dwfl == nullptr || dwfl_module_getelf(module.dwfl, &bias) != nullptr)
      continue;
    stacks.notes.push_back(
        fmt::format("'{}' was deleted, replaced or cannot be read: its functions have no names",
                    module.first->path));
  }
}

}  // namespace

ProcessStacks Unwinder::unwind(const ProcessCapture& capture) {
  ProcessStacks stacks{
      .pid = capture.pid, .executable = capture.executable, .notes = capture.notes};
  DwflSession session(capture, open_);
  for (const ThreadCapture& thread : capture.threads) {
    ThreadStack stack{.facts = thread.facts};
    if (!thread.addresses.empty())
      stack.frames = frames_at(thread.addresses, session, capture);
    else if (!thread.registers.empty())
      stack.frames = frames_of(thread, session, capture, stack.facts);
    stacks.threads.push_back(std::move(stack));
  }
  note_missing_files(session, stacks);
  return stacks;
}

std::vector<StackFrame> Unwinder::frames_at(const std::vector<std::uint64_t>& addresses,
                                            DwflSession& session, const ProcessCapture& capture) {
  std::vector<StackFrame> frames;
  for (const std::uint64_t address : addresses) {
    for (StackFrame& frame : names_.frames_of({.pc = address}, session, capture)) {
      if (frames.size() < kStackFramesMax) frames.push_back(std::move(frame));
    }
  }
  return frames;
}

std::vector<StackFrame> Unwinder::frames_of(const ThreadCapture& thread, DwflSession& session,
                                            const ProcessCapture& capture, ThreadFacts& facts) {
  if (capture.machine != EM_X86_64 || thread.registers.size() != kRegisters) {
    add_note(facts, "its processor is not supported");
    return {};
  }
  if (!session.attached()) {
    add_note(facts, "none of its files can be read");
    return {};
  }
  const WalkedStack walked = walk_stack(thread, session);
  std::vector<StackFrame> frames;
  for (const RawFrame& raw : walked.frames) {
    for (StackFrame& frame : names_.frames_of(raw, session, capture)) {
      if (frames.size() < kStackFramesMax) frames.push_back(std::move(frame));
    }
  }
  if (frames.size() == kStackFramesMax)
    add_note(facts, fmt::format("only the innermost {} frames are shown", kStackFramesMax));
  else if (!walked.complete)
    add_note(facts, "the outermost frames are missing");
  return frames;
}

}  // namespace train
