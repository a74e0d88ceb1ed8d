// What the kernel counts of real processes.
#include "daemon/supervisor/processes/process_sampler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/text_file.h"

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

// Of a process that stands still, so that the kernel's figures do not move.
TEST(ProcessSampler, SeesHowLongAProcessWaitedForACpu) {
  const Child busy(spin);
  EXPECT_TRUE(wait_until([&] { return sample_processes(busy.pid(), 0).cpu_us > 10'000; }));
  ::kill(busy.pid(), SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return sample_processes(busy.pid(), 0).state == "T"; }));
  std::ifstream file("/proc/" + std::to_string(busy.pid()) + "/schedstat");
  std::int64_t ran_ns = 0, waited_ns = 0;
  ASSERT_TRUE(file >> ran_ns >> waited_ns);
  ASSERT_NE(ran_ns / 1000, waited_ns / 1000);
  EXPECT_EQ(sample_processes(busy.pid(), 0).cpu_wait_us, waited_ns / 1000);
}

TEST(ProcessSampler, SaysWhatAProcessWaitsFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Child reader([&] {
    ::close(ends[1]);
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);
  });
  ProcessSample sample;
  EXPECT_TRUE(wait_until([&] {
    sample = sample_processes(reader.pid(), 0);
    return !sample.waits_for.empty();
  }));
  EXPECT_EQ(sample.state, "S");
  EXPECT_TRUE(sample.waits_for.starts_with("read of 'pipe:[")) << sample.waits_for;
  EXPECT_EQ(sample.waits_in, "") << "that is of one that nothing can interrupt";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ProcessTree, HasThoseThatLive) {
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const Child shell([&] {
    const pid_t lives = ::fork();
    if (lives == 0) wait_for_ever();
    const pid_t ended = ::fork();
    if (ended == 0) ::_exit(0);
    (void)!::write(said[1], &lives, sizeof lives);
    (void)!::write(said[1], &ended, sizeof ended);
    wait_for_ever();  // and reaps nobody
  });
  pid_t lives = 0, ended = 0;
  ASSERT_EQ(::read(said[0], &lives, sizeof lives), static_cast<ssize_t>(sizeof lives));
  ASSERT_EQ(::read(said[0], &ended, sizeof ended), static_cast<ssize_t>(sizeof ended));
  std::vector<pid_t> expected{shell.pid(), lives};
  EXPECT_TRUE(wait_until([&] { return process_tree(shell.pid()) == expected; }));
  EXPECT_TRUE(wait_until([&] { return sample_processes(ended, 0).state == "Z"; }));
  EXPECT_EQ(process_tree(shell.pid()), expected);

  const std::uint64_t began = process_began(lives);
  EXPECT_GT(began, 0u);
  EXPECT_EQ(process_began(lives), began);
  EXPECT_GE(began, process_began(shell.pid()));
  EXPECT_GT(process_began(shell.pid()), process_began(1));
  EXPECT_EQ(process_began(1 << 30), 0u);
  for (const int end : said) ::close(end);
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
  const ProcessSample sample = sample_processes(parent.pid(), parent.pid());
  // A kernel may hide the function from us.
  const std::string where = read_text("/proc/" + std::to_string(parent.pid()) + "/wchan");
  EXPECT_EQ(sample.waits_in.empty(), where.empty() || where == "0") << where;
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
