// What the kernel counts of real processes.
#include "daemon/supervisor/processes/process_sampler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

namespace train {
namespace {

/// A child that runs `work`, and is killed with what it started.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ == 0) {
      ::setpgid(0, 0);
      work();
      ::_exit(0);
    }
    ::setpgid(pid_, pid_);
  }
  ~Child() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

void spin() {
  volatile unsigned turns = 0;
  for (;;) turns = turns + 1;
}
void wait_for_ever() {
  for (;;) ::pause();
}

bool wait_until(const std::function<bool()>& condition) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(ProcessSampler, SeesTheCpuTimeOfABusyProcess) {
  const Child busy(spin);
  EXPECT_TRUE(wait_until([&] { return sample_processes(busy.pid(), 0).cpu_us > 100'000; }));
  const ProcessSample sample = sample_processes(busy.pid(), 0);
  EXPECT_EQ(sample.pid, busy.pid());
  EXPECT_EQ(sample.state, "R");
  EXPECT_EQ(sample.processes, 1u);
  EXPECT_GE(sample.threads, 1u);  // a sanitizer may have one of its own
  EXPECT_GT(sample.resident_bytes, 100'000);
}

TEST(ProcessSampler, SeesThatAProcessIsStopped) {
  const Child child(wait_for_ever);
  EXPECT_TRUE(wait_until([&] { return sample_processes(child.pid(), 0).state == "S"; }));
  ::kill(child.pid(), SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return sample_processes(child.pid(), 0).state == "T"; }));
}

// A worker is often a shell that waits for the program.
TEST(ProcessSampler, CountsWhatAProcessStartedAndShowsTheBusiest) {
  const Child shell([] {
    if (::fork() == 0) spin();
    wait_for_ever();
  });
  EXPECT_TRUE(wait_until([&] {
    const ProcessSample sample = sample_processes(shell.pid(), 0);
    return sample.processes == 2 && sample.cpu_us > 50'000 && sample.pid != shell.pid();
  }));
  EXPECT_EQ(sample_processes(shell.pid(), shell.pid()).pid, shell.pid());
}

TEST(ProcessSampler, CountsWhatIsReadAndWritten) {
  const Child reader([] {
    const int zero = ::open("/dev/zero", O_RDONLY), null = ::open("/dev/null", O_WRONLY);
    char buffer[65536];
    for (;;)
      if (::read(zero, buffer, sizeof buffer) < 0 || ::write(null, buffer, sizeof buffer) < 0)
        return;
  });
  EXPECT_TRUE(wait_until([&] {
    const ProcessSample sample = sample_processes(reader.pid(), 0);
    return sample.read_bytes > 10'000'000 && sample.written_bytes > 10'000'000;
  }));
}

// The parent of a vfork waits in the kernel until its child execs or ends.
TEST(ProcessSampler, SeesWhereAProcessWaitsInTheKernel) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "needs a real vfork(), of which this sanitizer makes a fork()";
#endif
  const Child parent([] {
    if (::vfork() == 0) {
      for (;;) ::pause();
    }
  });
  EXPECT_TRUE(
      wait_until([&] { return sample_processes(parent.pid(), parent.pid()).state == "D"; }));
  // A kernel may hide the function from us.
  const ProcessSample sample = sample_processes(parent.pid(), parent.pid());
  EXPECT_TRUE(sample.waits_in.empty() || sample.waits_in.find("vfork") != std::string::npos ||
              sample.waits_in.find("kernel_clone") != std::string::npos)
      << sample.waits_in;
}

TEST(ProcessSampler, KnowsNothingOfAProcessThatIsNotThere) {
  pid_t gone = 0;
  {
    gone = Child([] {}).pid();
  }
  EXPECT_EQ(sample_processes(gone, 0).processes, 0u);
}

TEST(ProcessSampler, LooksAtABoundedNumberOfProcesses) {
  const Child many([] {
    for (int i = 0; i < 300; ++i)
      if (::fork() == 0) wait_for_ever();
    wait_for_ever();
  });
  EXPECT_TRUE(wait_until([&] { return sample_processes(many.pid(), 0).processes == 256; }));
}

}  // namespace
}  // namespace train
