#include "lib/stacks/stopped_thread.h"

#include <elf.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace train {
namespace {

constexpr std::uint64_t kSliceNs = 100'000;  // the shortest that Linux grants

TimePoint now() { return std::chrono::steady_clock::now(); }

/// errno of ptrace(2) as an Error: NotFound if the thread has ended, or is not stopped for us.
Error ptrace_error(std::string_view doing) {
  const int number = errno;
  Error error = system_error(number, doing);
  if (number == ESRCH) error.code = Errc::NotFound;
  return error;
}

enum class Progress { Running, Stopped, Ended };

/// Look at a traced thread without changing anything. WNOWAIT: our own child must stay a zombie for
/// whoever waits for its exit code. Other threads of this process may have consumed the news of the
/// stop by a waitpid() of theirs, so "no news" does not mean "running": read_registers() tells.
Progress progress_of(pid_t tid) {
  siginfo_t news{};
  const int options = WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD;
  if (::waitid(P_PID, static_cast<id_t>(tid), &news, options) != 0 || news.si_pid != tid)
    return Progress::Running;
  const bool stopped = news.si_code == CLD_TRAPPED || news.si_code == CLD_STOPPED;
  return stopped ? Progress::Stopped : Progress::Ended;
}

/// Read the registers, which works only while the thread is stopped for us (else ESRCH).
Result<ThreadRegisters> read_registers(pid_t tid) {
#if defined(__x86_64__)
  user_regs_struct user{};
  iovec buffer{&user, sizeof user};
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &buffer) != 0)
    return ptrace_error("reading its registers");
  if (buffer.iov_len != sizeof user)
    return Error{Errc::InvalidArgument, "it is a 32-bit program, whose stacks we cannot read"};
  // System V ABI, AMD64 supplement, figure 3.36: DWARF register number mapping.
  return ThreadRegisters{.machine = EM_X86_64,
                         .dwarf = {user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi,
                                   user.rbp, user.rsp, user.r8, user.r9, user.r10, user.r11,
                                   user.r12, user.r13, user.r14, user.r15, user.rip},
                         .pc = user.rip,
                         .sp = user.rsp};
#else  // aarch64: DWARF numbers 0 to 30 are x0 to x30, 31 is sp, and pc has none
  return Error{Errc::InvalidArgument,
               fmt::format("thread {}: stacks can be read on x86-64 only so far", tid)};
#endif
}

/// Return the signal that the thread was about to receive when it stopped, or 0. Detaching must
/// pass it on, or it would be lost.
int signal_in_delivery(pid_t tid) {
  siginfo_t signal{};
  if (::ptrace(PTRACE_GETSIGINFO, tid, nullptr, &signal) != 0) return 0;
  const bool our_stop = signal.si_code >> 8 == PTRACE_EVENT_STOP;  // by us, or by SIGSTOP before
  return our_stop ? 0 : signal.si_signo;
}

/// Wait for the stop that we asked for. A thread that runs stops within microseconds; one that
/// waits for a processor, later; `not_yet` is when it was last seen on its way.
Result<ThreadRegisters> wait_for_stop(pid_t tid, TimePoint deadline, TimePoint& not_yet) {
  std::chrono::microseconds pause{10};
  while (true) {
    const TimePoint asked = now();
    const Progress progress = progress_of(tid);
    if (progress == Progress::Ended) return Error{Errc::NotFound, "it has ended"};
    auto registers = read_registers(tid);
    if (registers || registers.error().code != Errc::NotFound) return registers;
    if (asked > deadline) return Error{Errc::Unavailable, "it did not stop"};
    not_yet = asked;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{500});
  }
}

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

}  // namespace

void ask_for_prompt_turns() {
  const sched_param lowest{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_RR, &lowest) == 0) return;
  SchedulingAttributes attributes;
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kSliceNs;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

Result<StoppedThread> StoppedThread::stop(pid_t tid, Duration limit) {
  // No option is set: a tracer that dies must not kill what it traces (PTRACE_O_EXITKILL).
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return ptrace_error("stopping it");
  const TimePoint began = now();
  StoppedThread stopped(tid, began);  // detaches, if that is possible
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return ptrace_error("stopping it");
  TRY(stopped.registers_, wait_for_stop(tid, began + limit, stopped.began_));
  return stopped;
}

Duration StoppedThread::resume() {
  if (tid_ == 0) return Duration{0};
  const auto signal = static_cast<std::uintptr_t>(signal_in_delivery(tid_));
  (void)::ptrace(PTRACE_DETACH, tid_, nullptr, signal);  // ESRCH: it has ended, or never stopped
  tid_ = 0;
  return now() - began_;
}

}  // namespace train
