#include "lib/stacks/stack_text.h"

#include <fmt/format.h>

#include <string_view>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

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
  if (frame.inlined)
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

}  // namespace

std::string describe_stacks(const std::vector<RankStacks>& ranks, std::size_t bytes_max) {
  std::string text = describe_classes(stack_classes(ranks));
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
