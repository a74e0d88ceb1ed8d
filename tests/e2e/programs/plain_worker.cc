// A worker without the SDK that follows its words one after the other:
//   print TEXT | complain TEXT | write TEXT (no newline) | lines N | touch FILE | wait-for FILE |
//   exit N | signal N | segfault | hang | ignore-term | on-term-exit N (says "leaving") | family (a
//   child, one with setsid, a double fork; all hang) | eat MIB (of memory, and keeps them) |
//   forks N (children that hang, as many as there may be; says how many) | env NAME | rank R …
//   (only rank R goes on; the others hang) | attempt A … (the other attempts end with 0)
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/e2e/programs/file_wait.h"

namespace {

volatile sig_atomic_t term_code = 0;

[[noreturn]] void hang() {
  for (;;) ::pause();
}

int number_of(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : -1;
}

void start_family() {
  if (::fork() == 0) hang();
  if (::fork() == 0) {
    ::setsid();
    hang();
  }
  if (::fork() == 0) {
    ::setsid();
    if (::fork() == 0) hang();
    ::_exit(0);
  }
}

void eat(std::size_t mebibytes) {
  constexpr std::size_t kMebibyte = 1u << 20;
  for (std::size_t eaten = 0; eaten < mebibytes; ++eaten) {
    auto* memory = static_cast<volatile char*>(std::malloc(kMebibyte));
    for (std::size_t at = 0; memory != nullptr && at < kMebibyte; at += 1024) memory[at] = 1;
  }
}

int fork_up_to(int wanted) {
  for (int forked = 0; forked < wanted; ++forked) {
    const pid_t child = ::fork();
    if (child == 0) hang();
    if (child < 0) return forked;
  }
  return wanted;
}

}  // namespace

int main(int argc, char** argv) {
  const auto is = [&](int at, const char* word) { return std::strcmp(argv[at], word) == 0; };
  for (int at = 1; at < argc; ++at) {
    const bool more = at + 1 < argc;
    if (is(at, "segfault")) {
      *static_cast<volatile int*>(nullptr) = 1;
    } else if (is(at, "hang")) {
      hang();
    } else if (is(at, "ignore-term")) {
      ::signal(SIGTERM, SIG_IGN);
    } else if (is(at, "family")) {
      start_family();
    } else if (!more) {
      std::fprintf(stderr, "plain_worker: %s needs a word\n", argv[at]);
      return 99;
    } else if (is(at, "print")) {
      std::printf("%s\n", argv[++at]);
      std::fflush(stdout);
    } else if (is(at, "complain")) {
      std::fprintf(stderr, "%s\n", argv[++at]);
    } else if (is(at, "write")) {
      std::printf("%s", argv[++at]);
      std::fflush(stdout);
    } else if (is(at, "lines")) {
      for (long line = 0, count = std::atol(argv[++at]); line < count; ++line)
        std::printf("line %ld of rank %d\n", line, number_of("RANK"));
      std::fflush(stdout);
    } else if (is(at, "env")) {
      const char* value = std::getenv(argv[++at]);
      std::printf("%s=%s\n", argv[at], value != nullptr ? value : "(unset)");
      std::fflush(stdout);
    } else if (is(at, "eat")) {
      eat(static_cast<std::size_t>(std::atol(argv[++at])));
    } else if (is(at, "forks")) {
      std::printf("%d forked\n", fork_up_to(std::atoi(argv[++at])));
      std::fflush(stdout);
    } else if (is(at, "touch")) {
      ::close(::open(argv[++at], O_WRONLY | O_CREAT, 0600));
    } else if (is(at, "wait-for")) {
      train::e2e::wait_for_file(argv[++at]);
    } else if (is(at, "exit")) {
      std::exit(std::atoi(argv[++at]));
    } else if (is(at, "on-term-exit")) {
      term_code = std::atoi(argv[++at]);
      ::signal(SIGTERM, [](int) {
        [[maybe_unused]] const auto said = ::write(STDOUT_FILENO, "leaving\n", 8);
        ::_exit(term_code);
      });
    } else if (is(at, "signal")) {
      ::kill(::getpid(), std::atoi(argv[++at]));
    } else if (is(at, "rank")) {
      if (number_of("RANK") != std::atoi(argv[++at])) hang();
    } else if (is(at, "attempt")) {
      if (number_of("TORCHELASTIC_RESTART_COUNT") != std::atoi(argv[++at])) return 0;
    } else {
      std::fprintf(stderr, "plain_worker: unknown word %s\n", argv[at]);
      return 99;
    }
  }
  return 0;
}
