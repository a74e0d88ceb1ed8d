// A process that the tests profile: the first argument says what it does. It writes a byte once it
// does it, and ends when its standard input ends.
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE [[gnu::noinline]]

namespace training {

std::atomic<unsigned> turns{0};

NOINLINE void burn_a_while() {
  for (int i = 0; i < 100'000; ++i) turns.fetch_add(1, std::memory_order_relaxed);
}

NOINLINE void burn() {
  while (true) burn_a_while();
}

NOINLINE void wait_for_data() {
  while (true) ::pause();
}

/// Run for 0.3 s of a processor: some of the time that a thread lives is after it was found.
NOINLINE void burn_and_end() {
  for (timespec used{}; used.tv_sec == 0 && used.tv_nsec < 300'000'000;
       ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used))
    burn_a_while();
}

NOINLINE void come_and_go() {
  while (true) {
    std::vector<std::thread> few;
    for (int i = 0; i < 4; ++i) few.emplace_back(burn_and_end);
    for (std::thread& one : few) one.join();
  }
}

}  // namespace training

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  std::thread([] {
    pthread_setname_np(pthread_self(), "watcher");
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ::_exit(7);
  }).detach();
  if (::write(STDOUT_FILENO, "x", 1) != 1) return 1;
  if (mode == "burn") training::burn();
  if (mode == "wait") training::wait_for_data();
  if (mode == "churn") training::come_and_go();
  return 2;
}
