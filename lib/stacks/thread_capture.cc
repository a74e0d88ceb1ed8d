#include "lib/stacks/thread_capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <set>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/base/thread.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/stopped_thread.h"

namespace train {
namespace {

// Below the stack pointer, a function that calls no other may keep data (the ABI's red zone).
constexpr std::uint64_t kRedZoneBytes = 128;
// A disk read takes a thread into state D for milliseconds; a thread that stays there hangs.
constexpr Duration kUninterruptibleWait = milliseconds{20};
// Later threads get less time once so many have not stopped.
constexpr int kUnstoppedMax = 4;
constexpr Duration kShortStopWait = milliseconds{20};
constexpr std::uint64_t kSliceNs = 100'000;  // the shortest that Linux grants

TimePoint now() { return std::chrono::steady_clock::now(); }

/// The first part of the kernel's struct sched_attr (sched_setattr(2)), whose header and glibc's
/// define the same names.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // ns; of SCHED_OTHER: the slice
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

/// Ask for a processor as soon as one of our waits ends, since a stopped thread waits with us. Root
/// may have a real-time priority. Others may ask for short slices, which come sooner (Linux 6.12).
/// Both concern only the calling thread, which ends soon.
void ask_for_prompt_turns() {
  const sched_param lowest{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_RR, &lowest) == 0) return;
  SchedulingAttributes attributes;
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kSliceNs;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Return whether a stack may be read there without waiting for storage, which a mapped file needs.
bool is_memory(const MappedRange& range) {
  const std::string_view path = range.path;
  return !path.starts_with('/') || path.starts_with("/memfd:") || path.starts_with("/dev/zero") ||
         path.starts_with("/anon_hugepage");
}

const MappedRange* mapping_at(const std::vector<MappedRange>& mappings, std::uint64_t address) {
  const auto after = std::upper_bound(
      mappings.begin(), mappings.end(), address,
      [](std::uint64_t value, const MappedRange& range) { return value < range.start; });
  if (after == mappings.begin()) return nullptr;
  const MappedRange& range = *std::prev(after);
  return address < range.end ? &range : nullptr;
}

class ProcessCapturing {
 public:
  ProcessCapturing(pid_t pid, TimePoint deadline, const CaptureLimits& limits)
      : pid_(pid), deadline_(deadline), limits_(limits), buffer_(limits.stack_bytes_max, '\0') {}

  Result<ProcessCapture> run() {
    TRY(auto threads, threads_of(pid_));
    open_process();
    // A thread that starts while we look at the others is found when we list them again.
    for (bool found = true; found && !full_;) {
      found = false;
      for (const pid_t tid : threads) found |= take(tid);
      auto again = threads_of(pid_);
      if (!again) break;  // it has ended meanwhile: what we have is still worth showing
      threads = std::move(*again);
    }
    describe_what_is_missing();
    keep_mappings();
    return std::move(capture_);
  }

 private:
  void open_process() {
    capture_.pid = pid_;
    std::array<char, kMappingPathBytesMax> path{};
    const ssize_t size =
        ::readlink(fmt::format("/proc/{}/exe", pid_).c_str(), path.data(), path.size());
    if (size > 0) capture_.executable.assign(path.data(), static_cast<std::size_t>(size));
    memory_.reset(::open(fmt::format("/proc/{}/mem", pid_).c_str(), O_RDONLY | O_CLOEXEC));
    if (memory_.get() < 0)
      capture_.notes.push_back(system_error(errno, "its memory cannot be read").message);
    mappings_ = mappings_of(pid_);
    copy_vdso();
  }

  void copy_vdso() {
    for (const MappedRange& range : mappings_) {
      if (range.path != "[vdso]" || range.end - range.start > kVdsoBytesMax) continue;
      capture_.vdso_start = range.start;
      capture_.vdso.resize(range.end - range.start);
      const ssize_t size = ::pread(memory_.get(), capture_.vdso.data(), capture_.vdso.size(),
                                   static_cast<off_t>(range.start));
      capture_.vdso.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
  }

  /// Capture a thread, unless we have seen it. Return whether it is new.
  bool take(pid_t tid) {
    if (full_ || seen_.contains(tid)) return false;
    if (seen_.size() >= limits_.threads_max || now() > deadline_) {
      full_ = true;
      return false;
    }
    seen_.insert(tid);
    ThreadCapture thread;
    thread.facts = settled_facts(tid);
    if (thread.facts.state == '?') return true;  // it has ended
    if (thread.facts.state == 'Z' || thread.facts.state == 'X') {
      thread.facts.note = "it has ended";  // seen of a main thread whose other threads go on
    } else if (thread.facts.state == 'D') {
      thread.facts.note = "not stopped: the kernel does not interrupt its call";
    } else if (const auto copied = copy(thread); !copied) {
      if (copied.error().code == Errc::NotFound) return true;
      thread.facts.note = "not stopped: " + why_not(tid, copied.error());
    }
    if (thread.registers.empty()) thread.facts.kernel_stack = kernel_stack(pid_, tid);
    capture_.threads.push_back(std::move(thread));
    return true;
  }

  ThreadFacts settled_facts(pid_t tid) const {
    const TimePoint settled = std::min(now() + kUninterruptibleWait, deadline_);
    while (thread_state(pid_, tid) == 'D' && now() < settled)
      std::this_thread::sleep_for(milliseconds{1});
    return thread_facts(pid_, tid);
  }

  Result<Unit> copy(ThreadCapture& thread) {
    const Duration wait = unstopped_ < kUnstoppedMax ? limits_.stop_wait
                                                     : std::min(limits_.stop_wait, kShortStopWait);
    auto stopped = StoppedThread::stop(thread.facts.tid, wait);
    if (!stopped) {
      if (stopped.error().code == Errc::Unavailable) ++unstopped_;
      return std::move(stopped).error();
    }
    const ThreadRegisters& registers = stopped->registers();
    const std::size_t size = read_stack(registers.sp, thread);
    thread.facts.stopped_for = stopped->resume();
    capture_.machine = registers.machine;
    thread.registers = registers.dwarf;
    thread.pc = registers.pc;
    thread.sp = registers.sp;
    thread.stack.assign(buffer_.data(), size);
    stack_bytes_ += size;
    return Unit{};
  }

  /// Read the stack of a stopped thread into the buffer: fast, it waits for us.
  std::size_t read_stack(std::uint64_t sp, ThreadCapture& thread) {
    const MappedRange* range = mapping_at(mappings_, sp);
    if (range == nullptr) {  // of a thread that began after we read the mappings
      mappings_ = mappings_of(pid_);
      range = mapping_at(mappings_, sp);
    }
    if (range == nullptr || !is_memory(*range)) {
      thread.facts.note = "its stack pointer does not point to a stack";
      return 0;
    }
    thread.stack_start = std::max(range->start, sp - std::min(sp, kRedZoneBytes));
    const std::uint64_t left = limits_.process_bytes_max - stack_bytes_;
    const std::uint64_t wanted = range->end - thread.stack_start;
    const std::uint64_t most = std::min<std::uint64_t>({wanted, buffer_.size(), left});
    if (most < wanted)
      thread.facts.note =
          fmt::format("{} of {} KiB of its stack were copied", most >> 10, wanted >> 10);
    const ssize_t size =
        ::pread(memory_.get(), buffer_.data(), most, static_cast<off_t>(thread.stack_start));
    return static_cast<std::size_t>(std::max<ssize_t>(size, 0));
  }

  std::string why_not(pid_t tid, const Error& error) const {
    if (const pid_t tracer = tracer_of(pid_, tid); tracer != 0 && tracer != ::getpid()) {
      const std::string name = thread_facts(tracer, tracer).name;
      return fmt::format("process {} ('{}') traces it, as a debugger does", tracer, name);
    }
    if (error.code == Errc::Permission)
      return "we may not trace it (kernel.yama.ptrace_scope, or another user's process)";
    return error.message;
  }

  void describe_what_is_missing() {
    const auto all = threads_of(pid_);
    if (!all) {
      capture_.notes.push_back("it ended meanwhile");
      return;
    }
    const auto missing =
        std::count_if(all->begin(), all->end(), [this](pid_t tid) { return !seen_.contains(tid); });
    if (full_ && missing > 0)
      capture_.notes.push_back(
          fmt::format("{} threads were left out: we look at {} at most, until "
                      "a deadline",
                      missing, limits_.threads_max));
  }

  /// Keep what an unwinder needs: code, and the files that it comes from.
  void keep_mappings() {
    for (MappedRange& range : mappings_) {
      if (!range.executable && (range.inode == 0 || !range.path.starts_with('/'))) continue;
      if (capture_.mappings.size() == kCapturedMappingsMax) {
        capture_.notes.push_back(
            fmt::format("it has more than {} mappings of code and files; functions in the others "
                        "have no name",
                        kCapturedMappingsMax));
        return;
      }
      capture_.mappings.push_back(std::move(range));
    }
  }

  pid_t pid_;
  TimePoint deadline_;
  CaptureLimits limits_;
  std::string buffer_;  // written once already: no page fault while a thread is stopped
  FileDescriptor memory_;
  std::vector<MappedRange> mappings_;  // all, ascending
  std::set<pid_t> seen_;
  std::size_t stack_bytes_ = 0;
  int unstopped_ = 0;
  bool full_ = false;  // a limit was reached
  ProcessCapture capture_;
};

}  // namespace

BegunCapture::BegunCapture(pid_t pid, TimePoint deadline, const CaptureLimits& limits)
    // The work watches the deadline itself; only a call that blocks makes it exceed it.
    : pid_(pid), give_up_(deadline + limits.stop_wait + milliseconds{100}) {
  auto promise = std::make_shared<std::promise<Result<ProcessCapture>>>();
  captured_ = promise->get_future();
  const auto started = start_unjoined_thread("stacks", [promise, pid, deadline, limits] {
    ask_for_prompt_turns();
    promise->set_value(ProcessCapturing(pid, deadline, limits).run());
  });
  if (!started) promise->set_value(started.error());
}

Result<ProcessCapture> BegunCapture::finish() {
  if (captured_.wait_until(give_up_) != std::future_status::ready)
    return Error{Errc::Timeout, fmt::format("/proc/{} did not answer in time", pid_)};
  return captured_.get();
}

Result<ProcessCapture> capture_process(pid_t pid, TimePoint deadline, const CaptureLimits& limits) {
  return BegunCapture(pid, deadline, limits).finish();
}

}  // namespace train
