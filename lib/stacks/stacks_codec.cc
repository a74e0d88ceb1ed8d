#include "lib/stacks/stacks_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/stacks/byte_codec.h"

namespace train {
namespace {

constexpr std::string_view kMagic = "trs1";
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kRegistersMax = 128;
// The least that an element takes: its numbers, and four bytes for the length of each text.
constexpr std::size_t kFactsBytes = 4 + 1 + 8 + 5 * 4;
constexpr std::size_t kThreadBytes = kFactsBytes + (8 + 8 + 8) + (4 + 4 + 4);
constexpr std::size_t kMappingBytes = 5 * 8 + 1 + 4;
constexpr std::uint64_t kInlined = 1, kPython = 2;  // bits of what a frame is
constexpr std::size_t kFrameBytes = 2 * 8 + 4 + 2 + 3 * 4;

void put_facts(ByteWriter& out, const ThreadFacts& facts) {
  out.number(static_cast<std::uint64_t>(facts.tid), 4);
  out.number(static_cast<std::uint8_t>(facts.state), 1);
  out.number(static_cast<std::uint64_t>(facts.stopped_for.count()));
  out.text(facts.name, kNameBytesMax);
  out.text(facts.wchan, kNameBytesMax);
  out.text(facts.syscall, kNameBytesMax);
  out.text(facts.kernel_stack, kStackTextBytesMax);
  out.text(facts.note, kStackTextBytesMax);
}

ThreadFacts get_facts(ByteReader& in) {
  ThreadFacts facts;
  facts.tid = static_cast<pid_t>(in.number(4));
  facts.state = static_cast<char>(in.number(1));
  facts.stopped_for = Duration(static_cast<std::int64_t>(in.number()));
  facts.name = in.text(kNameBytesMax);
  facts.wchan = in.text(kNameBytesMax);
  facts.syscall = in.text(kNameBytesMax);
  facts.kernel_stack = in.text(kStackTextBytesMax);
  facts.note = in.text(kStackTextBytesMax);
  return facts;
}

void put_notes(ByteWriter& out, const std::vector<std::string>& notes) {
  const std::size_t count = std::min(notes.size(), kStackNotesMax);
  out.number(count, 4);
  for (std::size_t i = 0; i < count; ++i) out.text(notes[i], kStackTextBytesMax);
}

std::vector<std::string> get_notes(ByteReader& in) {
  std::vector<std::string> notes(in.count(kStackNotesMax, 4));
  for (std::string& note : notes) note = in.text(kStackTextBytesMax);
  return notes;
}

void put_mapping(ByteWriter& out, const MappedRange& range) {
  for (const std::uint64_t value :
       {range.start, range.end, range.offset, range.device, range.inode})
    out.number(value);
  out.number(range.executable ? 1 : 0, 1);
  out.text(range.path, kMappingPathBytesMax);
}

MappedRange get_mapping(ByteReader& in) {
  MappedRange range;
  for (std::uint64_t* value :
       {&range.start, &range.end, &range.offset, &range.device, &range.inode})
    *value = in.number();
  range.executable = in.flag();
  range.path = in.text(kMappingPathBytesMax);
  return range;
}

void put_thread(ByteWriter& out, const ThreadCapture& thread) {
  put_facts(out, thread.facts);
  out.number(thread.registers.size(), 4);
  for (const std::uint64_t value : thread.registers) out.number(value);
  out.number(thread.pc);
  out.number(thread.sp);
  out.number(thread.stack_start);
  out.text(thread.stack, kCapturedStackBytesMax);
  const std::size_t count = std::min(thread.addresses.size(), kCapturedAddressesMax);
  out.number(count, 4);
  for (std::size_t i = 0; i < count; ++i) out.number(thread.addresses[i]);
}

ThreadCapture get_thread(ByteReader& in) {
  ThreadCapture thread;
  thread.facts = get_facts(in);
  thread.registers.resize(in.count(kRegistersMax, 8));
  for (std::uint64_t& value : thread.registers) value = in.number();
  thread.pc = in.number();
  thread.sp = in.number();
  thread.stack_start = in.number();
  thread.stack = in.text(kCapturedStackBytesMax);
  thread.addresses.resize(in.count(kCapturedAddressesMax, 8));
  for (std::uint64_t& address : thread.addresses) address = in.number();
  return thread;
}

void put_frame(ByteWriter& out, const StackFrame& frame) {
  out.number(frame.pc);
  out.number(frame.offset);
  out.number(frame.line, 4);
  out.number((frame.inlined ? kInlined : 0) | (frame.python ? kPython : 0), 1);
  out.number(frame.guessed ? 1 : 0, 1);
  out.text(frame.function, kFunctionNameBytesMax);
  out.text(frame.module, kNameBytesMax);
  out.text(frame.file, kStackTextBytesMax);
}

StackFrame get_frame(ByteReader& in) {
  StackFrame frame;
  frame.pc = in.number();
  frame.offset = in.number();
  frame.line = static_cast<std::uint32_t>(in.number(4));
  const std::uint64_t what = in.number(1);
  frame.inlined = (what & kInlined) != 0;
  frame.python = (what & kPython) != 0;
  frame.guessed = in.flag();
  frame.function = in.text(kFunctionNameBytesMax);
  frame.module = in.text(kNameBytesMax);
  frame.file = in.text(kStackTextBytesMax);
  return frame;
}

Error bad(std::string_view what) {
  return {Errc::Protocol, fmt::format("{} is cut short, or exceeds a limit", what)};
}

}  // namespace

std::string encode_capture(const ProcessCapture& capture) {
  ByteWriter out;
  out.number(static_cast<std::uint64_t>(capture.pid), 4);
  out.number(capture.ended ? 1 : 0, 1);
  out.number(capture.machine, 2);
  out.text(capture.executable, kMappingPathBytesMax);
  out.number(capture.mappings.size(), 4);
  for (const MappedRange& range : capture.mappings) put_mapping(out, range);
  out.number(capture.vdso_start);
  out.text(capture.vdso, kVdsoBytesMax);
  out.number(capture.threads.size(), 4);
  for (const ThreadCapture& thread : capture.threads) put_thread(out, thread);
  put_notes(out, capture.notes);
  return std::move(out).take();
}

Result<ProcessCapture> decode_capture(std::string_view payload) {
  ByteReader in(payload);
  ProcessCapture capture;
  capture.pid = static_cast<pid_t>(in.number(4));
  capture.ended = in.flag();
  capture.machine = static_cast<std::uint16_t>(in.number(2));
  capture.executable = in.text(kMappingPathBytesMax);
  capture.mappings.resize(in.count(kCapturedMappingsMax, kMappingBytes));
  for (MappedRange& range : capture.mappings) range = get_mapping(in);
  capture.vdso_start = in.number();
  capture.vdso = in.text(kVdsoBytesMax);
  capture.threads.resize(in.count(kCapturedThreadsMax, kThreadBytes));
  for (ThreadCapture& thread : capture.threads) thread = get_thread(in);
  capture.notes = get_notes(in);
  if (!in.complete()) return bad("a capture");
  return capture;
}

std::string encode_stacks(const ProcessStacks& stacks) {
  ByteWriter out;
  out.number(static_cast<std::uint64_t>(stacks.pid), 4);
  out.text(stacks.executable, kMappingPathBytesMax);
  out.number(stacks.threads.size(), 4);
  for (const ThreadStack& thread : stacks.threads) {
    put_facts(out, thread.facts);
    out.number(thread.frames.size(), 4);
    for (const StackFrame& frame : thread.frames) put_frame(out, frame);
  }
  put_notes(out, stacks.notes);
  return std::move(out).take();
}

Result<ProcessStacks> decode_stacks(std::string_view payload) {
  ByteReader in(payload);
  ProcessStacks stacks;
  stacks.pid = static_cast<pid_t>(in.number(4));
  stacks.executable = in.text(kMappingPathBytesMax);
  stacks.threads.resize(in.count(kCapturedThreadsMax, kFactsBytes + 4));
  for (ThreadStack& thread : stacks.threads) {
    thread.facts = get_facts(in);
    thread.frames.resize(in.count(kStackFramesMax, kFrameBytes));
    for (StackFrame& frame : thread.frames) frame = get_frame(in);
  }
  stacks.notes = get_notes(in);
  if (!in.complete()) return bad("a process's stacks");
  return stacks;
}

std::string stack_message_header(std::size_t payload_bytes) {
  ByteWriter out;
  out.number(payload_bytes, 4);
  return std::string(kMagic) + std::move(out).take();
}

Result<std::size_t> stack_message_size(std::string_view header) {
  if (!header.starts_with(kMagic)) return Error{Errc::Protocol, "not a message with stacks"};
  ByteReader in(header.substr(kMagic.size()));
  const std::uint64_t size = in.number(4);
  if (!in.complete() || size > kStackMessageBytesMax)
    return Error{Errc::Protocol, fmt::format("a message with stacks has {} bytes, more than {}",
                                             size, kStackMessageBytesMax)};
  return size;
}

std::optional<std::string_view> next_stack_message(std::string_view& stream) {
  if (stream.size() < kStackMessageHeaderBytes) return std::nullopt;
  const auto size = stack_message_size(stream.substr(0, kStackMessageHeaderBytes));
  if (!size || *size > stream.size() - kStackMessageHeaderBytes) return std::nullopt;
  const std::string_view payload = stream.substr(kStackMessageHeaderBytes, *size);
  stream.remove_prefix(kStackMessageHeaderBytes + *size);
  return payload;
}

}  // namespace train
