// Stops a thread of another process for a moment, by ptrace(2), and reads its registers. The thread
// that stops it must end soon: then the kernel detaches everything that this code could not.
//
// What we promise about the target: it never stays stopped because of us, no signal is lost, a
// process that was stopped (SIGSTOP) stays stopped, and we never reap our own children here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct ThreadRegisters {
  std::uint16_t machine = 0;           // e_machine of ELF
  std::vector<std::uint64_t> dwarf{};  // in the order of the processor's DWARF numbers
  std::uint64_t pc = 0;
  std::uint64_t sp = 0;
};

class StoppedThread {
 public:
  /// Stop a thread. Unavailable: it did not stop within `limit`, and the calling thread must end so
  /// that it is detached. NotFound: it has ended. Permission: we may not, or a debugger holds it.
  static Result<StoppedThread> stop(pid_t tid, Duration limit);

  StoppedThread(StoppedThread&& other) noexcept
      : tid_(std::exchange(other.tid_, 0)),
        began_(other.began_),
        registers_(std::move(other.registers_)) {}
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread() { resume(); }

  const ThreadRegisters& registers() const { return registers_; }

  /// Let it go on where it was, and return for how long it was stopped at most: since we last saw
  /// that it had not stopped yet.
  Duration resume();

 private:
  StoppedThread(pid_t tid, TimePoint began) : tid_(tid), began_(began) {}

  pid_t tid_;        // 0: not stopped any more
  TimePoint began_;  // of the stop, at the earliest
  ThreadRegisters registers_;
};

/// Ask for a processor as soon as one of our waits ends, since a stopped thread waits with us. Root
/// may have a real-time priority. Others may ask for short slices, which come sooner (Linux 6.12).
/// Both concern only the calling thread, which must end soon or stop threads all its life.
void ask_for_prompt_turns();

}  // namespace train
