// What a worker leaves of itself when it crashes: memory behind its progress page, which it shares
// with its supervisor. The SDK's signal handler writes it (sdk/client/crash_record.cc); the
// supervisor reads it once the worker is dead, and makes a stack of it. So a crash has a stack
// without a core file, and without anybody who attaches to the process.
//
// The memory costs nothing until it is written. The worker may write anything at any time: the
// reader copies it first, and trusts no field.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace train {

inline constexpr std::size_t kCrashStackBytesMax = 256u << 10;  // more frames than anybody reads
inline constexpr std::size_t kCrashMapsBytesMax = 1u << 20;     // some 10,000 mappings
inline constexpr std::size_t kCrashRegisters = 17;              // of x86-64, by DWARF numbers

struct CrashRecord {
  enum State : std::uint32_t { kNone, kWriting, kComplete };

  std::atomic<std::uint32_t> state{kNone};
  std::int32_t signal = 0;
  std::int32_t code = 0;  // si_code
  std::int32_t pid = 0, tid = 0;
  std::uint64_t address = 0;  // si_addr
  std::array<char, 16> thread_name{};
  std::array<std::uint64_t, kCrashRegisters> registers{};  // where the signal hit
  std::uint64_t stack_start = 0;                           // address of the first byte of `stack`
  std::uint64_t stack_bytes = 0, maps_bytes = 0;
  std::array<char, kCrashStackBytesMax> stack{};
  std::array<char, kCrashMapsBytesMax> maps{};  // the text of /proc/self/maps
};

}  // namespace train
