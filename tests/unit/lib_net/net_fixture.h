// What the tests of lib/net share: one io_context that runs until the test's flow ends, a private
// folder, connected pairs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <utility>

#include "lib/net/connection.h"
#include "lib/net/listener.h"
#include "lib/net/scope.h"
#include "lib/net/within.h"

namespace train {

using namespace std::chrono_literals;

class NetTest : public testing::Test {
 protected:
  NetTest() {
    char name[] = "/tmp/net_test.XXXXXX";
    folder_ = ::mkdtemp(name);  // mode 0700
  }
  ~NetTest() override { std::filesystem::remove_all(folder_); }

  asio::any_io_executor executor() { return io_.get_executor(); }

  /// Run a flow to its end; fails where it takes longer than the deadline.
  void run(std::function<asio::awaitable<void>()> flow) {
    bool ended = false;
    std::exception_ptr exception;
    asio::co_spawn(io_, flow(), [&](std::exception_ptr e) {
      ended = true;
      exception = e;
    });
    io_.restart();
    io_.run_for(20s);
    ASSERT_TRUE(ended) << "the flow did not end";
    if (exception) std::rethrow_exception(exception);
  }

  /// Two ends of one Unix socket.
  std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> connected_pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    auto first = Connection::adopt(executor(), fds[0]);
    auto second = Connection::adopt(executor(), fds[1]);
    return {std::move(first).value(), std::move(second).value()};
  }

  /// A connection, and the bare descriptor at its other end, which blocks.
  std::pair<std::unique_ptr<Connection>, int> connection_and_fd() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return {Connection::adopt(executor(), fds[0]).value(), fds[1]};
  }

  asio::io_context io_{1};
  std::filesystem::path folder_;
};

}  // namespace train
