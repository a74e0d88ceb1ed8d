#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/open_files.h"
#include "lib/base/text_file.h"
#include "tests/fakes/full_table.h"

namespace train {
namespace {

TEST(WaitForEnd, WithNoDescriptorLeftADeathIsSeenAllTheSame) {
  asio::io_context context;
  const asio::steady_timer timer(context);  // opens the reactor's descriptors, as in any daemon
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    [[maybe_unused]] const auto got = ::read(go[0], &byte, 1);
    ::_exit(7);
  }
  const fakes::FullTable full;
  std::optional<Result<WaitStatus>> ended;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        ended = co_await wait_for_end(context.get_executor(), child);
      },
      [](const std::exception_ptr&) {});
  context.poll();  // the wait has begun, and it lives
  EXPECT_FALSE(ended);
  ASSERT_EQ(::write(go[1], "x", 1), 1);

  context.run();

  ASSERT_TRUE(ended);
  ASSERT_TRUE(*ended) << ended->error().describe();
  EXPECT_FALSE((*ended)->signaled);
  EXPECT_EQ((*ended)->status, 7);
  ::close(go[0]);
  ::close(go[1]);
}

/// Holds a child as lib/stacks does while it copies a stack: from another thread of this process.
class HeldByAnotherThread {
 public:
  explicit HeldByAnotherThread(pid_t child) {
    std::promise<void> held;
    thread_ = std::thread([this, child, &held] {
      ::ptrace(PTRACE_SEIZE, child, 0, 0);
      ::ptrace(PTRACE_INTERRUPT, child, 0, 0);
      while (read_text("/proc/" + std::to_string(child) + "/stat").find(") t ") ==
             std::string::npos)
        std::this_thread::yield();
      held.set_value();
      release_.get_future().wait();  // the kernel lets go when the thread ends
    });
    held.get_future().wait();
  }
  ~HeldByAnotherThread() {
    release_.set_value();
    thread_.join();
  }
  HeldByAnotherThread(const HeldByAnotherThread&) = delete;
  HeldByAnotherThread& operator=(const HeldByAnotherThread&) = delete;

 private:
  std::promise<void> release_;
  std::thread thread_;
};

TEST(WaitForEnd, AProcessThatIsHeldForItsStacksHasNotEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  asio::io_context context;
  std::optional<Result<WaitStatus>> ended;
  {
    const HeldByAnotherThread held(child);
    asio::co_spawn(
        context,
        [&]() -> asio::awaitable<void> {
          ended = co_await wait_for_end(context.get_executor(), child);
        },
        [](const std::exception_ptr&) {});
    context.poll();
    EXPECT_FALSE(ended);
  }
  ::kill(child, SIGKILL);
  context.run();
  ASSERT_TRUE(ended && ended->has_value());
  EXPECT_TRUE((*ended)->signaled);
  EXPECT_EQ((*ended)->status, SIGKILL);
}

TEST(ReservedFiles, MakeRoomWhereTheTableIsFull) {
  ReservedFiles reserved(4);
  const fakes::FullTable full;
  EXPECT_LT(::open("/dev/null", O_RDONLY), 0);
  reserved.release();
  const int fd = ::open("/dev/null", O_RDONLY);
  EXPECT_GE(fd, 0);
  ::close(fd);
  reserved.refill();
  EXPECT_LT(::open("/dev/null", O_RDONLY), 0);
}

}  // namespace
}  // namespace train
