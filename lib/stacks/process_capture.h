// What a capture copies of a process: the registers and stacks of its threads, and which files its
// code comes from. A plain value: another program (cmd/trainrun-unwind) makes stacks of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace train {

/// Facts about a thread that need no stop. They are all that we know of a thread that did not stop.
struct ThreadFacts {
  pid_t tid = 0;
  std::string name{};          // as the thread has set it, at most 15 bytes
  char state = '?';            // of /proc/PID/task/TID/stat, before we stopped it: R, S, D, T, t, Z
  std::string wchan{};         // the kernel function in which it waits, or empty
  std::string syscall{};       // the call in which it waits ("futex"), or empty
  std::string kernel_stack{};  // if it did not stop, and we may read it
  std::string note{};          // why it has no stack, or why its stack is not complete
  Duration stopped_for{0};     // how long it was stopped for us
  bool operator==(const ThreadFacts&) const = default;
};

struct ThreadCapture {
  ThreadFacts facts{};
  std::vector<std::uint64_t> registers{};  // in the order of the processor's DWARF numbers; or none
  std::uint64_t pc = 0;
  std::uint64_t sp = 0;
  std::uint64_t stack_start = 0;  // the address of the first byte of `stack`
  std::string stack{};
  /// A stack that was unwound before: return addresses, innermost first. Then nothing of the above
  /// is there.
  std::vector<std::uint64_t> addresses{};
  bool operator==(const ThreadCapture&) const = default;
};

/// A line of /proc/PID/maps.
struct MappedRange {
  std::uint64_t start = 0, end = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t device = 0;  // as makedev() gives it
  std::uint64_t inode = 0;   // 0: no file
  bool executable = false;
  std::string path{};  // "[vdso]", or a path that may end with " (deleted)"
  bool operator==(const MappedRange&) const = default;
};

struct ProcessCapture {
  pid_t pid = 0;
  bool ended = false;                   // there is no such process any more, only its files
  std::uint16_t machine = 0;            // e_machine of ELF; 0: not supported
  std::string executable{};             // a path, as the process sees it
  std::vector<MappedRange> mappings{};  // executable ones, and those of files; ascending
  std::uint64_t vdso_start = 0;
  std::string vdso{};  // the code that the kernel maps into each process
  std::vector<ThreadCapture> threads{};
  std::vector<std::string> notes{};  // what was left out, and why
  bool operator==(const ProcessCapture&) const = default;
};

// Bounds of a capture. 512 KiB of stack hold more frames than anybody reads.
inline constexpr std::size_t kCapturedThreadsMax = 1024;
inline constexpr std::size_t kCapturedAddressesMax = 512;
inline constexpr std::size_t kCapturedStackBytesMax = 512u << 10;
inline constexpr std::size_t kCapturedProcessBytesMax = 32u << 20;  // of stacks
inline constexpr std::size_t kCapturedMappingsMax = 16384;
inline constexpr std::size_t kMappingPathBytesMax = 4096;
inline constexpr std::size_t kVdsoBytesMax = 64u << 10;

}  // namespace train
