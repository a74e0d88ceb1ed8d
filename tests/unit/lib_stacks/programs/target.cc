// A process whose stacks the tests take: the first argument says where it waits. It ends with 7
// when its standard input ends.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/lib_stacks/programs/shared_page.h"

#define NOINLINE [[gnu::noinline]]

train::stacks_test::SharedPage* page = nullptr;
constexpr int kGoodEnd = 7;

namespace training {

NOINLINE int load_rows(int fd) {
  char byte = 0;
  const ssize_t size = ::read(fd, &byte, 1);
  return size <= 0 ? kGoodEnd : 0;
}

NOINLINE void await_batch(std::condition_variable& changed, std::unique_lock<std::mutex>& lock) {
  page->ready = 1;
  changed.wait(lock, [] { return page->turns == 1000; });
}

template <class Value>
NOINLINE void lock_both(std::mutex& first, std::mutex& second, Value) {
  const std::lock_guard<std::mutex> one(first);
  ++page->ready;
  while (page->ready < 2) std::this_thread::yield();
  const std::lock_guard<std::mutex> two(second);
}

[[gnu::always_inline]] inline void innermost() {
  ++page->turns;  // the line that the test looks for: innermost
}
[[gnu::always_inline]] inline void middle() {
  while (true) innermost();  // middle
}
NOINLINE void spin() {
  page->ready = 1;
  middle();  // spin
}

}  // namespace training

namespace {

// A function without call frame information that uses the frame pointer for something else, as
// assembly in mathematical libraries does.
extern "C" void bare_assembly();
asm(R"(
  .text
  .type bare_assembly, @function
bare_assembly:
  pushq %rbp
  subq $64, %rsp
  leaq bare_assembly(%rip), %rax  # no return address: no call precedes it
  movq %rax, 8(%rsp)
  xorl %ebp, %ebp
  call spin_from_assembly
  addq $64, %rsp
  popq %rbp
  ret
  .size bare_assembly, .-bare_assembly
)");

void pause_for(long nanoseconds) {
  const timespec time{0, nanoseconds};
  auto* const wait = &::nanosleep;
  if (wait(&time, nullptr) != 0 && errno == EINTR) ++page->interrupted;
}

int deadlock() {
  static std::mutex a, b;
  std::thread other([] {
    pthread_setname_np(pthread_self(), "other");
    training::lock_both(a, b, 'x');
  });
  training::lock_both(b, a, 1.5);
  other.join();
  return 0;
}

int condition(int threads) {
  static std::mutex mutex;
  static std::condition_variable changed;
  const auto wait = [] {
    std::unique_lock<std::mutex> lock(mutex);
    training::await_batch(changed, lock);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(wait);
  std::thread([] {
    while (training::load_rows(0) == 0) {
    }
    ::_exit(kGoodEnd);
  }).detach();
  wait();
  return 0;
}

/// Call what a stop may not disturb, and count the turns, until the input ends.
int calls() {
  const int epoll = ::epoll_create1(0);
  std::mutex mutex;
  std::condition_variable changed;
  std::thread([] { ::_exit(training::load_rows(0)); }).detach();
  page->ready = 1;
  while (true) {
    epoll_event event{};
    (void)::epoll_wait(epoll, &event, 1, 1);  // may return EINTR: signal(7)
    pause_for(200'000);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::microseconds(200));
    ++page->turns;
  }
}

int sleeper() {
  std::thread([] { ::_exit(training::load_rows(0)); }).detach();
  page->ready = 1;
  while (true) {
    pause_for(1'000'000);
    ++page->turns;
  }
}

int signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++page->signals; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGRTMIN, &action, nullptr);
  return sleeper();
}

int in_handler() {
  static char alternate[64 << 10];
  const stack_t stack{.ss_sp = alternate, .ss_flags = 0, .ss_size = sizeof alternate};
  ::sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = [](int) {
    page->ready = 1;
    ::_exit(training::load_rows(0));
  };
  ::sigaction(SIGUSR1, &action, nullptr);
  ::raise(SIGUSR1);
  return 0;
}

int churn() {
  std::thread([] { ::_exit(training::load_rows(0)); }).detach();
  page->ready = 1;
  while (true) {
    std::vector<std::thread> few;
    for (int i = 0; i < 4; ++i) few.emplace_back([] { ++page->turns; });
    for (std::thread& one : few) one.join();
  }
}

int vfork_parent() {
  page->ready = 1;
  if (::vfork() == 0) ::_exit(training::load_rows(0) == kGoodEnd ? 0 : 1);
  return kGoodEnd;
}

int trace(pid_t pid) {
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) return 1;
  page->ready = 1;
  return training::load_rows(0);
}

int recurse(int depth) {
  const int below = depth == 0 ? training::load_rows(0) : recurse(depth - 1);
  return below == 0 ? depth : below;
}

}  // namespace

extern "C" NOINLINE void spin_from_assembly() { training::spin(); }

int main(int argc, char** argv) {
  page = train::stacks_test::map_page(train::stacks_test::kPageFd);
  const std::string mode = argc > 1 ? argv[1] : "";
  if (page == nullptr) return 2;
  if (mode == "deadlock") return deadlock();
  if (mode == "condition") return condition(1);
  if (mode == "many") return condition(64);
  if (mode == "calls") return calls();
  if (mode == "sleep") return sleeper();
  if (mode == "signals") return signals();
  if (mode == "handler") return in_handler();
  if (mode == "churn") return churn();
  if (mode == "vfork") return vfork_parent();
  if (mode == "trace") return trace(std::atoi(argv[2]));
  page->ready = 1;
  if (mode == "read") return training::load_rows(0);
  if (mode == "deep") return recurse(2000);
  if (mode == "assembly") bare_assembly();
  if (mode == "spin") training::spin();
  return 3;
}
