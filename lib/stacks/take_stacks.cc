#include "lib/stacks/take_stacks.h"

#include <fmt/format.h>

#include <deque>
#include <optional>

#include "lib/base/file_descriptor.h"
#include "lib/base/helper_program.h"
#include "lib/stacks/python_dumps.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/unwinder_process.h"

namespace train {
namespace {

constexpr const char* kUnwinder = "trainrun-unwind";
// The part of the time that captures may take if processes do not answer.
constexpr int kCapturePart = 2;

TimePoint now() { return std::chrono::steady_clock::now(); }

// Captures mostly wait until the threads that they stop get a processor.
constexpr std::size_t kCapturesAtATime = 8;

/// What the captures of all processes gave, and which of them the unwinder gets.
struct Captures {
  std::vector<ProcessStacks> stacks;  // without frames, one for each process
  std::vector<std::size_t> captured;  // indices in `stacks`, in the order of the unwinder's input
  std::size_t bytes = 0;
};

/// Append a capture to the unwinder's input.
Result<Unit> add_capture(const ProcessCapture& capture, const FileDescriptor& input,
                         Captures& all) {
  all.stacks.back() = stacks_without_frames(capture);
  if (all.bytes > kCapturesBytesMax)
    return Error{Errc::ResourceExhausted, "the processes before it have too many and large stacks"};
  const std::string payload = encode_capture(capture);
  TRY_VOID(append_to(input, stack_message_header(payload.size())));
  TRY_VOID(append_to(input, payload));
  all.bytes += payload.size();
  all.captured.push_back(all.stacks.size() - 1);
  return Unit{};
}

Result<Unit> take_capture(BegunCapture begun, const FileDescriptor& input, Captures& all) {
  TRY(const ProcessCapture capture, begun.finish());
  return add_capture(capture, input, all);
}

Captures capture_all(const FileDescriptor& input, const std::vector<pid_t>& pids,
                     TimePoint deadline, const CaptureLimits& limits) {
  Captures all;
  std::deque<BegunCapture> begun;
  std::size_t next = 0;
  for (const pid_t pid : pids) {
    for (; next < pids.size() && begun.size() < kCapturesAtATime; ++next)
      begun.emplace_back(pids[next], deadline, limits);
    all.stacks.push_back({.pid = pid});
    const auto done = take_capture(std::move(begun.front()), input, all);
    begun.pop_front();
    if (!done) all.stacks.back().notes.push_back("no stacks: " + done.error().describe());
  }
  return all;
}

/// Put the frames where they belong. Return how many captures have none.
std::size_t add_frames(std::string_view messages, Captures& all) {
  std::size_t next = 0;
  while (next < all.captured.size()) {
    const auto payload = next_stack_message(messages);
    if (!payload) break;
    auto stacks = decode_stacks(*payload);
    if (!stacks) break;
    ProcessStacks& known = all.stacks[all.captured[next++]];
    stacks->pid = known.pid;
    known = std::move(*stacks);
  }
  for (std::size_t i = next; i < all.captured.size(); ++i)
    all.stacks[all.captured[i]].notes.push_back(
        "no frames: the program that unwinds stacks failed");
  return all.captured.size() - next;
}

void unwind_all(const std::string& program, const FileDescriptor& input, TimePoint deadline,
                Captures& all) {
  if (all.captured.empty()) return;
  const auto output = program.empty()
                          ? Error{Errc::NotFound, fmt::format("{} is not installed", kUnwinder)}
                          : run_unwinder(program, input, deadline);
  const std::size_t missing = add_frames(output ? output->messages : "", all);
  if (missing == 0) return;
  const std::string why = output ? output->trouble : output.error().describe();
  for (std::size_t i = all.captured.size() - missing; i < all.captured.size(); ++i) {
    if (!why.empty()) all.stacks[all.captured[i]].notes.back() += ": " + why;
  }
}

}  // namespace

Result<std::vector<ProcessStacks>> take_stacks(const std::vector<pid_t>& pids, TimePoint deadline,
                                               const TakeStacksOptions& options) {
  if (pids.size() > kStackProcessesMax)
    return Error{Errc::InvalidArgument, fmt::format("stacks of {} processes, more than {}",
                                                    pids.size(), kStackProcessesMax)};
  TRY(const FileDescriptor input, memory_file("captures"));
  const TimePoint began = now();
  const TimePoint captured_by = began + (deadline - began) / kCapturePart;
  Captures all = capture_all(input, pids, captured_by, options.limits);
  PythonDumps python(pids, deadline);
  unwind_all(options.unwinder.empty() ? find_unwinder() : options.unwinder, input, deadline, all);
  python.add_to(all.stacks);
  return std::move(all.stacks);
}

std::vector<ProcessStacks> unwind_captures(const std::vector<ProcessCapture>& captures,
                                           TimePoint deadline, const std::string& unwinder) {
  Captures all;
  const auto input = memory_file("captures");
  for (const ProcessCapture& capture : captures) {
    all.stacks.push_back(stacks_without_frames(capture));
    const auto added = input ? add_capture(capture, *input, all) : input.error();
    if (!added) all.stacks.back().notes.push_back("no frames: " + added.error().describe());
  }
  if (input) unwind_all(unwinder.empty() ? find_unwinder() : unwinder, *input, deadline, all);
  return std::move(all.stacks);
}

std::string find_unwinder() { return find_helper_program(kUnwinder); }

ProcessStacks stacks_without_frames(const ProcessCapture& capture) {
  ProcessStacks stacks{
      .pid = capture.pid, .executable = capture.executable, .notes = capture.notes};
  for (const ThreadCapture& thread : capture.threads)
    stacks.threads.push_back({.facts = thread.facts});
  return stacks;
}

}  // namespace train
