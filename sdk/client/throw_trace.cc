#include "sdk/client/throw_trace.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <typeinfo>
#include <vector>

#include "sdk/client/symbol_table.h"

namespace train::sdk {
namespace {

constexpr int kFramesMax = 64;
constexpr int kThrowsMax = 10'000;

using ThrowFunction = void (*)(void*, std::type_info*, void (*)(void*));
std::atomic<ThrowFunction> pass_on = nullptr;  // set while throws are watched
std::atomic<int> throws_left = kThrowsMax;

struct Trace {
  const void* exception = nullptr;
  int count = 0;
  void* frames[kFramesMax];
};
thread_local Trace last_trace;

ThrowFunction runtime_throw() {
  ThrowFunction next = nullptr;
  void* symbol = ::dlsym(RTLD_NEXT, "__cxa_throw");
  std::memcpy(&next, &symbol, sizeof next);
  return next;
}

// An exception_ptr is one pointer, to the thrown object (Itanium C++ ABI; libstdc++ keeps it so).
const void* object_of(const std::exception_ptr& exception) {
  static_assert(sizeof exception == sizeof(void*));
  const void* object = nullptr;
  std::memcpy(&object, static_cast<const void*>(&exception), sizeof object);
  return object;
}

}  // namespace

void watch_throws() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads the unwinder now, not inside a throw or a signal handler
  pass_on = runtime_throw();
}

std::string describe_frames(void* const* frames, int count) {
  std::vector<CodeLocation> all, own;
  for (int i = 0; i < count; ++i) {
    // A frame is the address that its call returns to: look at the byte before it.
    const CodeLocation& location =
        all.emplace_back(location_of(static_cast<const char*>(frames[i]) - 1));
    if (is_programs_own(location)) own.push_back(location);
  }
  std::string text;
  for (const CodeLocation& location : own.empty() ? all : own) {
    char line[64];
    std::snprintf(line, sizeof line, "#%zu ", &location - (own.empty() ? all : own).data());
    text += line;
    if (!location.symbol.empty()) text += location.function() + " ";
    std::snprintf(line, sizeof line, "+%#zx", location.offset);
    text += "(" + location.module + line + ")\n";
  }
  return text;
}

std::string throw_stack(const std::exception_ptr& exception) {
  if (!exception || last_trace.exception != object_of(exception)) return {};
  return describe_frames(last_trace.frames, last_trace.count);
}

/// Remember the stack of a throw, and return the function to pass it on to. Not inlined, because it
/// leaves out exactly two frames.
__attribute__((noinline)) ThrowFunction note_throw(const void* exception) {
  const ThrowFunction next = pass_on.load(std::memory_order_relaxed);
  if (next == nullptr) return runtime_throw();
  if (throws_left.load(std::memory_order_relaxed) > 0 &&
      throws_left.fetch_sub(1, std::memory_order_relaxed) > 0) {
    constexpr int kOwnFrames = 2;  // this function and __cxa_throw
    void* frames[kFramesMax + kOwnFrames];
    const int count = ::backtrace(frames, kFramesMax + kOwnFrames) - kOwnFrames;
    last_trace.exception = exception;
    last_trace.count = count > 0 ? count : 0;
    for (int i = 0; i < last_trace.count; ++i) last_trace.frames[i] = frames[i + kOwnFrames];
  } else {
    last_trace.exception = nullptr;  // this exception may have the address of the traced one
  }
  return next;
}

}  // namespace train::sdk

// Weak: where libstdc++ is linked statically, its own definition wins and nothing is watched.
extern "C" __attribute__((weak, noreturn, visibility("default"))) void __cxa_throw(
    void* exception, std::type_info* type, void (*destroy)(void*)) {
  train::sdk::note_throw(exception)(exception, type, destroy);
  std::abort();  // the runtime's function does not return
}
