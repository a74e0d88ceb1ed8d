#include "lib/stacks/python_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "lib/base/utf8.h"

namespace train {
namespace {

namespace json = boost::json;
constexpr std::size_t kFileBytesMax = 1024;
constexpr std::size_t kNameBytesMax = 64;
constexpr std::int64_t kTidMax = 1 << 22;  // PID_MAX_LIMIT
constexpr std::int64_t kLineMax = 1'000'000'000;
constexpr std::string_view kMainThread = "MainThread";

std::string text_of(const json::object& object, std::string_view key, std::size_t bytes_max) {
  const json::value* member = object.if_contains(key);
  return member != nullptr && member->is_string()
             ? utf8_text(std::string_view(member->as_string()), bytes_max)
             : "";
}

std::int64_t number_of(const json::object& object, std::string_view key) {
  const json::value* member = object.if_contains(key);
  return member != nullptr && member->is_int64() ? member->as_int64() : 0;
}

StackFrame frame_of(const json::object& frame) {
  const std::int64_t line = std::clamp<std::int64_t>(number_of(frame, "line"), 0, kLineMax);
  return {.function = text_of(frame, "name", kFunctionNameBytesMax),
          .file = text_of(frame, "filename", kFileBytesMax),
          .line = static_cast<std::uint32_t>(line),
          .python = true};
}

PythonThread thread_of(const json::object& object) {
  PythonThread thread;
  const std::int64_t tid = number_of(object, "os_thread_id");
  if (tid > 0 && tid <= kTidMax) thread.tid = static_cast<pid_t>(tid);
  thread.name = text_of(object, "thread_name", kNameBytesMax);
  const json::value* gil = object.if_contains("owns_gil");
  thread.owns_gil = gil != nullptr && gil->is_bool() && gil->as_bool();
  const json::value* frames = object.if_contains("frames");
  if (frames == nullptr || !frames->is_array()) return thread;
  for (const json::value& item : frames->as_array()) {
    if (!item.is_object() || thread.frames.size() == kStackFramesMax) break;
    thread.frames.push_back(frame_of(item.as_object()));
  }
  return thread;
}

/// Return whether a file is CPython: "python", "python3.11", "libpython3.11.so.1.0".
bool is_interpreter(std::string_view module) {
  if (module.starts_with("libpython")) return true;
  if (!module.starts_with("python")) return false;
  return module.find_first_not_of(".0123456789", 6) == module.npos;
}

bool is_interpreter(const StackFrame& frame) {
  return is_interpreter(frame.module) || frame.function.starts_with("_PyEval_") ||
         frame.function.starts_with("PyEval_");
}

void add_note(std::string& notes, std::string_view note) {
  if (!notes.empty()) notes += "; ";
  notes += note;
}

/// Return whether the thread waits until another one releases the interpreter's lock.
bool waits_for_gil(const ThreadStack& thread) {
  return std::any_of(thread.frames.begin(), thread.frames.end(),
                     [](const StackFrame& frame) { return frame.function == "take_gil"; });
}

/// Replace the frames from the innermost to the outermost of the interpreter. A stack without any
/// ends before the interpreter.
void replace_interpreter(std::vector<StackFrame>& native, const std::vector<StackFrame>& python) {
  const auto is_one = [](const StackFrame& frame) { return is_interpreter(frame); };
  const auto first = std::find_if(native.begin(), native.end(), is_one);
  const auto last = std::find_if(native.rbegin(), native.rend(), is_one).base();
  std::vector<StackFrame> frames(native.begin(), first);
  frames.insert(frames.end(), python.begin(), python.end());
  if (first != native.end()) frames.insert(frames.end(), last, native.end());
  frames.resize(std::min(frames.size(), kStackFramesMax));
  native = std::move(frames);
}

const PythonThread* find_thread(const std::vector<PythonThread>& threads, pid_t tid, bool is_main) {
  for (const PythonThread& thread : threads) {
    if (thread.tid == tid || (is_main && thread.tid == 0 && thread.name == kMainThread))
      return &thread;
  }
  return nullptr;
}

}  // namespace

Result<std::vector<PythonThread>> parse_python_threads(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_array()) return Error{Errc::Protocol, "py-spy's output cannot be read"};
  std::vector<PythonThread> threads;
  for (const json::value& item : value.as_array()) {
    if (!item.is_object() || threads.size() == kCapturedThreadsMax) break;
    threads.push_back(thread_of(item.as_object()));
  }
  return threads;
}

void add_python_frames(ProcessStacks& stacks, const std::vector<PythonThread>& threads) {
  bool main_waits = false;
  for (ThreadStack& thread : stacks.threads) {
    const bool is_main = thread.facts.tid == stacks.pid;
    const PythonThread* found = find_thread(threads, thread.facts.tid, is_main);
    if (found == nullptr) continue;
    if (found->owns_gil) add_note(thread.facts.note, "holds the GIL");
    if (waits_for_gil(thread)) {
      add_note(thread.facts.note, "waits for the GIL");
      main_waits = main_waits || is_main;
    }
    if (!found->frames.empty()) replace_interpreter(thread.frames, found->frames);
  }
  for (const PythonThread& thread : threads) {
    // A main thread that runs Python is nothing to tell.
    const bool is_main =
        thread.tid == stacks.pid || (thread.tid == 0 && thread.name == kMainThread);
    if (!thread.owns_gil || is_main) continue;
    stacks.notes.push_back(fmt::format("Python's thread '{}' (tid {}) holds the GIL{}", thread.name,
                                       thread.tid,
                                       main_waits ? "; the main thread waits for it" : ""));
    break;
  }
}

}  // namespace train
