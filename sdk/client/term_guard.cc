#include "sdk/client/term_guard.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace train::sdk {
namespace {

// A signal handler reads these.
pid_t guarded_process = 0, supervisor_process = 0;
timer_t hold_timer{};
itimerspec hold_time{};
std::atomic<bool> ordered = false;
std::atomic<HeldTerm> held = HeldTerm::None;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<HeldTerm>::is_always_lock_free);

// The signal is blocked while its handler runs, and ends the process once that returns.
void end_as_by_default() {
  ::signal(SIGTERM, SIG_DFL);
  ::raise(SIGTERM);
}

void on_term(int, siginfo_t* info, void*) {
  if (::getpid() != guarded_process) return end_as_by_default();
  if (info->si_code == SI_TIMER) {
    held = HeldTerm::Over;
    if (!ordered) end_as_by_default();
    return;
  }
  // Nobody known: a process of another PID namespace.
  if (info->si_pid == supervisor_process || info->si_pid == guarded_process || info->si_pid == 0)
    return end_as_by_default();
  HeldTerm none = HeldTerm::None;
  if (held.compare_exchange_strong(none, HeldTerm::Waiting))
    ::timer_settime(hold_timer, 0, &hold_time, nullptr);
}

}  // namespace

void guard_against_term(pid_t supervisor, std::chrono::milliseconds hold) {
  ordered = false;  // for an earlier run of this process
  held = HeldTerm::None;
  struct sigaction now {};
  if (std::getenv("SLURM_JOB_ID") == nullptr || ::sigaction(SIGTERM, nullptr, &now) != 0 ||
      now.sa_handler != SIG_DFL)
    return;
  sigevent expiry{};
  expiry.sigev_notify = SIGEV_SIGNAL;
  expiry.sigev_signo = SIGTERM;
  if (::timer_create(CLOCK_MONOTONIC, &expiry, &hold_timer) != 0) return;
  hold_time.it_value.tv_sec = hold.count() / 1000;
  hold_time.it_value.tv_nsec = hold.count() % 1000 * 1'000'000;
  guarded_process = ::getpid();
  supervisor_process = supervisor;
  struct sigaction guard {};
  guard.sa_sigaction = on_term;
  guard.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGTERM, &guard, nullptr);
}

void stop_is_ordered() { ordered = true; }

HeldTerm held_term() { return held; }

}  // namespace train::sdk
