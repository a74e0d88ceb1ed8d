// A process that the tests profile: the first argument says what it does. It writes a byte once it
// does it, and ends when its standard input ends.
#include <fcntl.h>
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

/// Have many threads that wait, beside one that runs.
NOINLINE void burn_in_a_crowd() {
  std::vector<std::thread> crowd;
  for (int i = 0; i < 400; ++i) crowd.emplace_back(wait_for_data);
  burn();
}

/// Run in threads that live for a few milliseconds.
NOINLINE void burn_briefly() {
  while (true) std::thread(burn_a_while).join();
}

/// Spend the time in the kernel.
NOINLINE void read_much() {
  const int zeros = ::open("/dev/zero", O_RDONLY);
  std::vector<char> buffer(16 << 20);
  while (::read(zeros, buffer.data(), buffer.size()) > 0) {
  }
}

/// Run for a while, then be another program.
NOINLINE void burn_and_exec(char** argv) {
  while (std::clock() < CLOCKS_PER_SEC / 4) burn_a_while();
  char mode[] = "quiet";
  char* const words[] = {argv[0], mode, nullptr};
  ::execv(argv[0], words);
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
  std::atomic<bool> watched = false;
  std::thread([&watched] {
    pthread_setname_np(pthread_self(), "watcher");
    watched = true;
    watched.notify_one();
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ::_exit(7);
  }).detach();
  watched.wait(false);
  if (mode == "quiet") training::burn();
  if (::write(STDOUT_FILENO, "x", 1) != 1) return 1;
  if (mode == "burn") training::burn();
  if (mode == "wait") training::wait_for_data();
  if (mode == "brief") training::burn_briefly();
  if (mode == "read") training::read_much();
  if (mode == "crowd") training::burn_in_a_crowd();
  if (mode == "exec") training::burn_and_exec(argv);
  if (mode == "churn") training::come_and_go();
  return 2;
}
