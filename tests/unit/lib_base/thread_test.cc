#include "lib/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <future>
#include <string>

namespace train {
namespace {

struct Seen {
  bool takes_int = true, takes_usr1 = true;
  std::string name;
};

Seen look() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return {sigismember(&mask, SIGINT) == 0, sigismember(&mask, SIGUSR1) == 0, name};
}

TEST(Thread, TakesNoSignalAndHasAName) {
  Seen seen;

  start_thread("trainrun-test", [&] { seen = look(); }).join();

  EXPECT_FALSE(seen.takes_int || seen.takes_usr1);
  EXPECT_EQ(seen.name, "trainrun-test");
}

TEST(Thread, LeavesTheMaskOfItsStarterAlone) {
  start_thread("trainrun-test", [] {}).join();

  EXPECT_TRUE(look().takes_int && look().takes_usr1);
}

TEST(Thread, OneThatNobodyJoinsRunsToItsEnd) {
  std::promise<Seen> seen;

  ASSERT_TRUE(start_unjoined_thread("trainrun-test", [&] { seen.set_value(look()); }));

  EXPECT_FALSE(seen.get_future().get().takes_int);
}

}  // namespace
}  // namespace train
