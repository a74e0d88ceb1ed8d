#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>

#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/open_files.h"
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
