// Samples one thread by perf_event_open(2): whenever it has run for so long, the kernel copies its
// registers and the top of its stack. Nothing is stopped. Time that the thread spends in the kernel
// belongs to the function that called it, if the kernel lets us see that: else it has no samples.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/profile/sampling/perf_records.h"

struct perf_event_attr;

namespace train {

inline constexpr std::uint64_t kPerfHz = 99;  // not in step with what programs do each 10 ms
/// Of a sample. With 32 KiB, 99 % of the stacks of a LibTorch program are complete; with 8, 42 %.
inline constexpr std::uint32_t kPerfStackBytes = 32u << 10;

/// perf_event_open(2) of a thread on any processor: a descriptor, or −1 and errno.
using PerfOpen = std::function<int(perf_event_attr&, pid_t)>;
int open_perf_event(perf_event_attr& attributes, pid_t tid);

/// Return kernel.perf_event_paranoid, which says what users may see: 2 excludes the kernel.
std::string perf_event_paranoid();

class PerfEvent {
 public:
  /// NotFound: the thread has ended. ResourceExhausted: the limits on open files or on locked
  /// memory. Permission: the kernel refuses it, to any thread.
  static Result<PerfEvent> open(pid_t tid, const PerfOpen& perf_open);

  PerfEvent(PerfEvent&& other) noexcept
      : file_(std::move(other.file_)),
        ring_(std::exchange(other.ring_, nullptr)),
        bytes_(other.bytes_),
        samples_kernel_(other.samples_kernel_) {}
  PerfEvent& operator=(PerfEvent&&) = delete;
  ~PerfEvent();

  int fd() const { return file_.get(); }
  /// Return whether the thread is also sampled while it is in the kernel.
  bool samples_kernel() const { return samples_kernel_; }
  /// Pass on what has come since the last call.
  void drain(const std::function<void(ThreadCapture)>& sample, PerfCounts& counts);

 private:
  PerfEvent(FileDescriptor file, void* ring, std::size_t bytes, bool samples_kernel)
      : file_(std::move(file)), ring_(ring), bytes_(bytes), samples_kernel_(samples_kernel) {}

  FileDescriptor file_;
  void* ring_;         // a page of the kernel's, then `bytes_`
  std::size_t bytes_;  // a power of two
  bool samples_kernel_;
};

}  // namespace train
