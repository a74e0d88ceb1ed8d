#include "lib/stacks/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "lib/base/rank_ranges.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::size_t kNotesMax = 16;

std::string head_of(const RankStacks& rank) {
  std::string text = fmt::format("\nrank {}, pid {}", rank.rank, rank.process.pid);
  if (!rank.node.empty()) text += fmt::format(" on {}", rank.node);
  if (!rank.process.executable.empty()) text += fmt::format(", {}", rank.process.executable);
  text += '\n';
  for (const std::string& note : rank.process.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

std::string thread_line(const ThreadFacts& facts) {
  std::string text = fmt::format("  thread {} '{}', state {}", facts.tid, facts.name, facts.state);
  if (!facts.syscall.empty()) text += fmt::format(", in {}", facts.syscall);
  if (!facts.wchan.empty()) text += fmt::format(" ({})", facts.wchan);
  text += '\n';
  if (!facts.note.empty()) text += fmt::format("    note: {}\n", facts.note);
  return text;
}

std::string frame_line(std::size_t number, const StackFrame& frame) {
  std::string text = fmt::format("    #{:<3} ", number);
  text += frame.function.empty() ? fmt::format("0x{:x}", frame.pc) : frame.function;
  if (!frame.file.empty()) text += fmt::format(" {}:{}", frame.file, frame.line);
  if (frame.python)
    text += " (Python)";
  else if (frame.inlined)
    text += " (inlined)";
  else if (!frame.module.empty())
    text += fmt::format(" [{}+0x{:x}]", frame.module, frame.offset);
  if (frame.guessed) text += " (guessed)";
  return text + '\n';
}

std::string thread_text(const ThreadStack& thread) {
  std::string text = thread_line(thread.facts);
  for (std::size_t i = 0; i < thread.frames.size(); ++i) text += frame_line(i, thread.frames[i]);
  for (std::string_view rest = thread.facts.kernel_stack; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    text += fmt::format("    kernel: {}\n", rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return text;
}

/// "note: ranks 0-3: no Python frames: ...": the notes of all processes, equal ones together.
std::string notes_text(const std::vector<RankStacks>& ranks) {
  std::map<std::string, std::vector<std::int32_t>> by_note;
  for (const RankStacks& rank : ranks) {
    if (rank.process.threads.empty()) continue;  // its class is the note
    for (const std::string& note : rank.process.notes) {
      std::vector<std::int32_t>& of = by_note[note];
      if (of.empty() || of.back() != rank.rank) of.push_back(rank.rank);
    }
  }
  std::string text;
  std::size_t shown = 0;
  for (auto& [note, of] : by_note) {
    if (shown++ == kNotesMax) {
      text += fmt::format("... and {} more notes\n", by_note.size() - kNotesMax);
      break;
    }
    std::sort(of.begin(), of.end());
    text += fmt::format("note: {} {}: {}\n", of.size() == 1 ? "rank" : "ranks", rank_ranges(of),
                        terminal_safe(note));
  }
  return text;
}

}  // namespace

std::string describe_stacks(const std::vector<RankStacks>& ranks, std::size_t bytes_max) {
  std::string text = describe_classes(stack_classes(ranks)) + notes_text(ranks);
  std::size_t left_out = 0;
  for (const RankStacks& rank : ranks) {
    const std::string head = terminal_safe_lines(head_of(rank));
    if (left_out == 0 && text.size() + head.size() <= bytes_max) text += head;
    for (const ThreadStack& thread : rank.process.threads) {
      const std::string one = left_out > 0 ? "" : terminal_safe_lines(thread_text(thread));
      if (left_out > 0 || text.size() + one.size() > bytes_max)
        ++left_out;
      else
        text += one;
    }
  }
  if (left_out > 0)
    text += fmt::format("\n{} more threads were left out: the text has its limit of {} KiB\n",
                        left_out, bytes_max >> 10);
  return text;
}

}  // namespace train
