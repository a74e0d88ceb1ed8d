#include "daemon/server/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <memory>

#include "tests/fakes/eventually.h"
#include "tests/fakes/full_table.h"

namespace train {
namespace {

class ProcessWatch : public testing::Test {
 protected:
  ProcessWatch() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~ProcessWatch() override {
    end();
    ::waitpid(pid_, nullptr, 0);
  }
  void end() const { ::kill(pid_, SIGKILL); }

  void watch(const std::string& start) {
    asio::co_spawn(
        context_,
        [this, start]() -> asio::awaitable<void> {
          const auto waited = co_await wait_until_gone(context_.get_executor(), pid_, start);
          gone_ = waited.has_value();
        },
        [](const std::exception_ptr&) {});
  }
  /// Run what is due now. Return whether the watch reports that the process has gone.
  bool is_gone() {
    context_.restart();
    context_.poll();
    return gone_;
  }

  pid_t pid_;
  asio::io_context context_;
  asio::steady_timer timer_{context_};  // opens the reactor's descriptors, as in any daemon
  bool gone_ = false;
};

TEST_F(ProcessWatch, SeesTheEndOfAProcess) {
  watch(process_start(pid_));
  EXPECT_FALSE(is_gone());

  end();

  EXPECT_TRUE(fakes::eventually([&] { return is_gone(); }));
  EXPECT_EQ(process_start(pid_), "");  // not reaped yet
}

TEST_F(ProcessWatch, TakesNoOtherProcessForIt) {
  watch("1");
  EXPECT_TRUE(is_gone());
}

TEST_F(ProcessWatch, WatchesOneOfWhichNobodyKnowsWhenItBegan) {
  watch("");
  EXPECT_FALSE(is_gone());
  end();
  EXPECT_TRUE(fakes::eventually([&] { return is_gone(); }));
}

TEST_F(ProcessWatch, TakesNoLackOfDescriptorsForItsEnd) {
  const std::string start = process_start(pid_);
  auto full = std::make_unique<fakes::FullTable>();
  EXPECT_EQ(process_start(pid_), "");
  watch(start);
  EXPECT_FALSE(is_gone());

  full.reset();
  end();

  EXPECT_TRUE(fakes::eventually([&] { return is_gone(); }));
}

}  // namespace
}  // namespace train
