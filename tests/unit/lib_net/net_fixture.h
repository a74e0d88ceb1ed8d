// What the tests of lib/net share: an io_context that runs until the test's flow ends, a private
// folder, and connected pairs.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <optional>
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

  /// Run a flow, and all that it has begun, to the end; fail if that takes longer than the
  /// deadline. `alone`: run only the flow itself.
  void run(std::function<asio::awaitable<void>()> flow, bool alone = false) {
    bool ended = false;
    std::exception_ptr exception;
    asio::co_spawn(io_, flow(), [&](std::exception_ptr e) {
      ended = true;
      exception = e;
      if (alone) io_.stop();
    });
    io_.restart();
    io_.run_for(20s);
    ASSERT_TRUE(ended) << "the flow did not end";
    if (exception) std::rethrow_exception(exception);
  }

  /// Run a flow beside something that goes on after it; do not wait for that.
  void run_beside(std::function<asio::awaitable<void>()> flow) { run(std::move(flow), true); }

  /// Return the two ends of a Unix socket.
  std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> connected_pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    auto first = Connection::adopt(executor(), fds[0]);
    auto second = Connection::adopt(executor(), fds[1]);
    return {std::move(first).value(), std::move(second).value()};
  }

  /// Return the two ends of a TCP connection over loopback; the second one accepted it.
  std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> tcp_pair() {
    auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
    std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>> ends;
    run([&]() -> asio::awaitable<void> {
      auto first = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
      ends.first = std::move(first).value();
      auto second = co_await listener->accept();
      ends.second = std::move(second).value();
    });
    return ends;
  }

  /// Return an accepted TCP connection, and the bare blocking descriptor at its other end.
  std::pair<std::unique_ptr<Connection>, int> tcp_connection_and_fd() {
    auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener->local_endpoint().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::unique_ptr<Connection> accepted;
    run([&]() -> asio::awaitable<void> {
      auto connection = co_await listener->accept();
      accepted = std::move(connection).value();
    });
    return {std::move(accepted), fd};
  }

  /// Return a connection, and the bare blocking descriptor at its other end.
  std::pair<std::unique_ptr<Connection>, int> connection_and_fd() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return {Connection::adopt(executor(), fds[0]).value(), fds[1]};
  }

  asio::awaitable<void> expect_a_cancelled_receive_says_so(Connection& connection) {
    std::optional<Errc> seen;
    const auto receive = [](Connection& from, std::optional<Errc>& out) -> asio::awaitable<void> {
      auto frame = co_await from.receive();
      if (frame.has_error()) out = frame.error().code;
    };
    Scope scope(executor());
    scope.spawn("receive", receive(connection, seen));
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(seen, Errc::Cancelled);
  }

  asio::io_context io_{1};
  std::filesystem::path folder_;
};

}  // namespace train
