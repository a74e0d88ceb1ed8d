// Stacks with names: what trainrun-unwind makes of captures, and what is shown to users. Plain
// values; all texts come from others' programs and pass through terminal_safe() before a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/stacks/process_capture.h"

namespace train {

/// A function that has not returned. An inlined function has a frame of its own.
struct StackFrame {
  std::uint64_t pc = 0;
  std::string
      function{};        // demangled, with parameters; "jit" for code in anonymous memory; or empty
  std::string module{};  // the file that holds the code, without its folder; or empty
  std::uint64_t offset = 0;  // of pc in the module, as addr2line(1) takes it
  std::string file{};        // of the source; or empty
  std::uint32_t line = 0;
  bool inlined = false;
  bool guessed = false;  // found by a scan for a return address: it and what follows may be wrong
  bool python = false;   // a function of Python: only `function`, `file` and `line` are known
  bool operator==(const StackFrame&) const = default;
};

struct ThreadStack {
  ThreadFacts facts{};
  std::vector<StackFrame> frames{};  // innermost first
  bool operator==(const ThreadStack&) const = default;
};

struct ProcessStacks {
  pid_t pid = 0;
  std::string executable{};
  std::vector<ThreadStack> threads{};  // the main thread (tid == pid) first, unless it has ended
  std::vector<std::string> notes{};
  bool operator==(const ProcessStacks&) const = default;
};

inline constexpr std::size_t kStackFramesMax = 512;        // of one thread
inline constexpr std::size_t kFunctionNameBytesMax = 512;  // templates make names of many KiB
inline constexpr std::size_t kStackNotesMax = 64;
inline constexpr std::size_t kStackTextBytesMax = 4096;  // of a path, a note or a kernel stack

}  // namespace train
