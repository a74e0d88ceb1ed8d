#include "lib/stacks/unwind/stack_walk.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "lib/stacks/process_stacks.h"

namespace train {
namespace {

constexpr std::size_t kBasePointer = 6, kStackPointer = 7, kPc = 16;  // DWARF numbers of x86-64
constexpr std::size_t kCallBytesMax = 7;
constexpr std::size_t kScanBytesMax = 64u << 10;

/// Return whether a called function can return to an address: code is there, and, if we have it, a
/// call precedes it. Frame pointers, where the code has none, lead anywhere.
bool may_return_to(std::uint64_t address, DwflSession& session) {
  if (address == 0 || !session.modules().executable(address - 1)) return false;
  const std::string_view code = session.constant_memory(address - kCallBytesMax, kCallBytesMax);
  return code.size() < kCallBytesMax || ends_with_call(code);
}

/// Find the first return address on the stack from `from` on, in code of which we have the file.
std::optional<std::uint64_t> scan(const ThreadCapture& thread, std::uint64_t from,
                                  DwflSession& session) {
  if (from < thread.stack_start) return std::nullopt;
  const std::size_t begin = from - thread.stack_start + (-from & 7);
  for (std::size_t at = begin; at + 8 <= thread.stack.size() && at < begin + kScanBytesMax;
       at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, thread.stack.data() + at, sizeof word);
    if (session.modules().at(word) == nullptr || !may_return_to(word, session)) continue;
    if (session.constant_memory(word - 1, 1).empty()) continue;
    return thread.stack_start + at;
  }
  return std::nullopt;
}

std::uint64_t word_at(const ThreadCapture& thread, std::uint64_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, thread.stack.data() + (address - thread.stack_start), sizeof word);
  return word;
}

/// The rules by which a walk goes on.
class PlausibleFrames {
 public:
  PlausibleFrames(DwflSession& session, std::size_t frames_max)
      : session_(session), left_(frames_max) {}

  bool operator()(const RawFrame& frame) {
    if (left_ == 0) return false;
    --left_;
    const bool first = !last_.has_value();
    const bool moves = first || frame.sp == 0 || last_->sp == 0 || frame.sp > last_->sp ||
                       (frame.interrupted && frame.sp != last_->sp);  // a signal's own stack
    last_ = frame;
    return first || (moves && (frame.interrupted || may_return_to(frame.pc, session_)));
  }
  bool full() const { return left_ == 0; }

 private:
  DwflSession& session_;
  std::size_t left_;
  std::optional<RawFrame> last_;
};

}  // namespace

bool ends_with_call(std::string_view code) {
  const auto byte = [&](std::size_t back) {
    return static_cast<unsigned>(static_cast<unsigned char>(code[code.size() - back]));
  };
  if (code.size() >= 5 && byte(5) == 0xE8) return true;  // call rel32
  // call r/m64 is FF /2: the byte behind FF tells how long the operand is (Intel SDM 2, 2.1.5).
  for (std::size_t back = 2; back <= std::min(code.size(), kCallBytesMax); ++back) {
    if (byte(back) != 0xFF) continue;
    const unsigned modrm = byte(back - 1), mod = modrm >> 6, rm = modrm & 7;
    if ((modrm >> 3 & 7) != 2) continue;
    const std::size_t sib = mod != 3 && rm == 4 ? 1 : 0;
    const std::size_t wide = mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
    if (2 + sib + wide + (mod == 1 ? 1 : 0) == back) return true;
  }
  return false;
}

WalkedStack walk_stack(const ThreadCapture& thread, DwflSession& session) {
  WalkedStack stack;
  PlausibleFrames rules(session, kStackFramesMax);
  auto walk = session.walk(thread, thread.registers, std::ref(rules));
  stack.frames = std::move(walk.frames);
  stack.complete = walk.reached_end;
  if (stack.complete || stack.frames.empty() || rules.full()) return stack;

  const RawFrame& last = stack.frames.back();
  const auto found = scan(thread, stack.frames.size() == 1 ? thread.sp : last.sp, session);
  if (!found) return stack;
  std::vector<std::uint64_t> registers = thread.registers;
  registers[kPc] = word_at(thread, *found);
  registers[kStackPointer] = *found + 8;
  if (last.bp != 0) registers[kBasePointer] = last.bp;
  PlausibleFrames same_rules(session, kStackFramesMax - stack.frames.size());
  walk = session.walk(thread, registers, std::ref(same_rules));
  if (!walk.frames.empty()) walk.frames.front().interrupted = false;
  for (RawFrame& frame : walk.frames) {
    frame.guessed = true;
    stack.frames.push_back(frame);
  }
  stack.complete = walk.reached_end;
  return stack;
}

}  // namespace train
