#include "lib/stacks/thread_capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>

#include "lib/base/thread.h"
#include "lib/stacks/proc_files.h"
#include "lib/stacks/process_reader.h"
#include "lib/stacks/stopped_thread.h"

namespace train {
namespace {

// A disk read takes a thread into state D for milliseconds; a thread that stays there hangs.
constexpr Duration kUninterruptibleWait = milliseconds{20};
// Later threads get less time once so many have not stopped.
constexpr int kUnstoppedMax = 4;
constexpr Duration kShortStopWait = milliseconds{20};

TimePoint now() { return std::chrono::steady_clock::now(); }

class ProcessCapturing {
 public:
  ProcessCapturing(pid_t pid, TimePoint deadline, const CaptureLimits& limits)
      : pid_(pid), deadline_(deadline), limits_(limits), reader_(pid, limits.stack_bytes_max) {}

  Result<ProcessCapture> run() {
    TRY(auto threads, threads_of(pid_));
    // A thread that starts while we look at the others is found when we list them again.
    for (bool found = true; found && !full_;) {
      found = false;
      for (const pid_t tid : threads) found |= take(tid);
      auto again = threads_of(pid_);
      if (!again) break;  // it has ended meanwhile: what we have is still worth showing
      threads = std::move(*again);
    }
    ProcessCapture capture = reader_.describe();
    capture.threads = std::move(threads_);
    describe_what_is_missing(capture.notes);
    return capture;
  }

 private:
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
    threads_.push_back(std::move(thread));
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
    Result<Unit> copied = reader_.copy(thread, wait, limits_.process_bytes_max - stack_bytes_);
    if (!copied && copied.error().code == Errc::Unavailable) ++unstopped_;
    stack_bytes_ += thread.stack.size();
    return copied;
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

  void describe_what_is_missing(std::vector<std::string>& notes) const {
    const auto all = threads_of(pid_);
    if (!all) {
      notes.push_back("it ended meanwhile");
      return;
    }
    const auto missing =
        std::count_if(all->begin(), all->end(), [this](pid_t tid) { return !seen_.contains(tid); });
    if (full_ && missing > 0)
      notes.push_back(
          fmt::format("{} threads were left out: we look at {} at most, until "
                      "a deadline",
                      missing, limits_.threads_max));
  }

  pid_t pid_;
  TimePoint deadline_;
  CaptureLimits limits_;
  ProcessReader reader_;
  std::set<pid_t> seen_;
  std::size_t stack_bytes_ = 0;
  int unstopped_ = 0;
  bool full_ = false;  // a limit was reached
  std::vector<ThreadCapture> threads_;
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
