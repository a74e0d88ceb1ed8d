// Reads one live process for captures and profiles: copies the registers and stack of a thread,
// which it stops for a moment, and tells where the process's code comes from. One thread at a time
// may use it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/stacks/process_capture.h"

namespace train {

class ProcessReader {
 public:
  /// `stack_bytes_max`: of one thread.
  ProcessReader(pid_t pid, std::size_t stack_bytes_max);

  /// Copy the registers of the thread `thread.facts.tid`, and at most `bytes_max` bytes of its
  /// stack. Errors are those of StoppedThread::stop().
  Result<Unit> copy(ThreadCapture& thread, Duration stop_wait, std::size_t bytes_max);

  /// Return everything of a capture but its threads, and note in it what could not be read.
  ProcessCapture describe() const;
  /// Read the mappings again, unless is_outdated().
  void read_mappings();
  /// Return whether the process has ended, or runs another program (exec): then this reader, and
  /// what it has described, are those of the old one.
  bool is_outdated() const;

 private:
  void copy_vdso();
  std::size_t read_stack(std::uint64_t sp, ThreadCapture& thread, std::size_t bytes_max);

  std::string buffer_;  // written once already: no page fault while a thread is stopped
  FileDescriptor memory_;
  std::vector<MappedRange> mappings_;  // all, ascending
  ProcessCapture process_;             // without mappings and threads
};

}  // namespace train
