#include "sdk/client/term_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>

namespace train::sdk {
namespace {

constexpr int kSurvived = 7;
constexpr std::chrono::milliseconds kLong = std::chrono::hours(1);

void survive(int) { ::_exit(kSurvived); }

/// A process that guards itself, and ends with kSurvived at SIGUSR2.
class Guarded {
 public:
  /// `whom`: the supervisor. `then`: what it does once it is ready, before it waits for signals.
  Guarded(pid_t supervisor, std::chrono::milliseconds hold, const std::function<void()>& then = {},
          bool in_slurm = true) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGUSR2, survive);
      in_slurm ? ::setenv("SLURM_JOB_ID", "7", 1) : ::unsetenv("SLURM_JOB_ID");
      guard_against_term(supervisor, hold);
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      if (then) then();
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  void signal(int number) const { ::kill(pid_, number); }
  int status() const {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    return status;
  }

 private:
  pid_t pid_ = 0;
};

bool ended_by_term(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM; }
bool survived(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kSurvived; }

TEST(TermGuard, LetsTheSupervisorEndTheWorker) {
  const Guarded worker(::getpid(), kLong);
  worker.signal(SIGTERM);
  EXPECT_TRUE(ended_by_term(worker.status()));
}

TEST(TermGuard, HoldsATermOfSomebodyElse) {
  const Guarded worker(1, kLong);
  worker.signal(SIGTERM);
  worker.signal(SIGTERM);
  worker.signal(SIGUSR2);
  EXPECT_TRUE(survived(worker.status()));
}

TEST(TermGuard, EndsTheWorkerIfNoOrderToStopFollows) {
  const Guarded worker(1, std::chrono::milliseconds(20));
  worker.signal(SIGTERM);
  EXPECT_TRUE(ended_by_term(worker.status()));
}

TEST(TermGuard, LeavesTheEndToTheOrderIfOneFollows) {
  const Guarded worker(1, std::chrono::milliseconds(20), [] {
    stop_is_ordered();
    while (held_term() != HeldTerm::Over) ::pause();
    ::_exit(kSurvived);
  });
  worker.signal(SIGTERM);
  EXPECT_TRUE(survived(worker.status()));
}

TEST(TermGuard, LetsTheWorkerEndItself) {
  const Guarded worker(1, kLong, [] { ::raise(SIGTERM); });
  EXPECT_TRUE(ended_by_term(worker.status()));
}

// As the processes of a data loader are ended.
TEST(TermGuard, LeavesForkedProcessesAsTheyWere) {
  const Guarded worker(1, kLong, [] {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    ::kill(child, SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(ended_by_term(status) ? kSurvived : 1);
  });
  EXPECT_TRUE(survived(worker.status()));
}

TEST(TermGuard, IsForSlurmJobsOnly) {
  const Guarded worker(1, kLong, {}, /*in_slurm=*/false);
  worker.signal(SIGTERM);
  EXPECT_TRUE(ended_by_term(worker.status()));
}

TEST(TermGuard, LeavesAProgramItsOwnHandler) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, survive);
    ::setenv("SLURM_JOB_ID", "7", 1);
    guard_against_term(1, kLong);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(survived(status));
}

}  // namespace
}  // namespace train::sdk
