#include "lib/net/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace {

std::deque<int> connect_errors;  // of the next calls, in order

}  // namespace

/// Replaces the C library's function, which does not fail for a missing network.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the header has reserved ones
extern "C" int connect(int fd, const sockaddr* address, socklen_t size) {
  if (connect_errors.empty()) return static_cast<int>(::syscall(SYS_connect, fd, address, size));
  errno = connect_errors.front();
  connect_errors.pop_front();
  return -1;
}

namespace train {
namespace {

Frame numbered(std::uint64_t number) { return encode(Heartbeat{.sequence = number}); }

class ConnectionTest : public NetTest {
 protected:
  void expect_error(const Result<Frame>& result, Errc code, const std::string& part) {
    EXPECT_TRUE(result.has_error());
    if (!result.has_error()) return;
    EXPECT_EQ(result.error().code, code);
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  }

  static void write_all(int fd, std::string_view bytes) {
    ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
};

TEST_F(ConnectionTest, FramesArriveInOrderBothWays) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    for (std::uint64_t i = 0; i < 1000; ++i) a->send(numbered(i));
    b->send(Frame{.type = MessageType::ReportBatch,
                  .attempt = Attempt{3},
                  .payload = std::string(300000, 'r')});
    for (std::uint64_t i = 0; i < 1000; ++i) {
      auto frame = co_await within(10s, b->receive());
      EXPECT_TRUE(frame.has_value() && *frame == numbered(i)) << i;
    }
    auto big = co_await within(10s, a->receive());
    EXPECT_TRUE(big.has_value() && *big == (Frame{.type = MessageType::ReportBatch,
                                                  .attempt = Attempt{3},
                                                  .payload = std::string(300000, 'r')}));
  });
}

TEST_F(ConnectionTest, BackPressureAndFlush) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    const Frame block{.type = MessageType::OutputChunk,
                      .attempt = Attempt{0},
                      .payload = std::string(1 << 20, 'o')};
    for (int i = 0; i < 8; ++i) a->send(block);
    EXPECT_GT(a->queued_bytes(), 7u << 20);
    auto full = co_await within(5ms, a->wait_queue_below(1 << 20));  // nobody reads
    EXPECT_TRUE(full.has_error() && full.error().code == Errc::Timeout);
    Scope scope(executor());
    const auto reader = [](Connection& connection) -> asio::awaitable<void> {
      for (int i = 0; i < 8; ++i) {
        auto frame = co_await connection.receive();
        EXPECT_TRUE(frame.has_value());
      }
    };
    scope.spawn("reader", reader(*b));
    auto room = co_await within(10s, a->wait_queue_below(1 << 20));
    EXPECT_TRUE(room.has_value());
    auto flushed = co_await within(10s, a->flush());
    EXPECT_TRUE(flushed.has_value());
    EXPECT_EQ(a->queued_bytes(), 0u);
    co_await scope.join();
  });
}

TEST_F(ConnectionTest, APeerThatClosesIsUnavailableAfterItsLastFrame) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    a->send(numbered(1));
    auto flushed = co_await a->flush();
    EXPECT_TRUE(flushed.has_value());
    a->close();
    a->close();
    auto frame = co_await within(10s, b->receive());
    EXPECT_TRUE(frame.has_value());
    for (int i = 0; i < 2; ++i) {
      auto end = co_await within(10s, b->receive());
      expect_error(end, Errc::Unavailable, "closed the connection");
    }
    for (int i = 0; i < 3; ++i) b->send(numbered(2));
    auto lost = co_await within(10s, b->flush());
    EXPECT_TRUE(lost.has_error() && lost.error().code == Errc::Unavailable);
    auto here = co_await a->receive();
    expect_error(here, Errc::Unavailable, "is closed");
  });
}

TEST_F(ConnectionTest, WhatThePeerSaidLastArrivesThoughWritingFails) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    b->send(numbered(7));
    auto flushed = co_await b->flush();
    EXPECT_TRUE(flushed.has_value());
    b->close();
    a->send(numbered(1));
    auto lost = co_await within(10s, a->flush());
    EXPECT_TRUE(lost.has_error() && lost.error().code == Errc::Unavailable);
    auto last = co_await within(10s, a->receive());
    EXPECT_TRUE(last.has_value() && *last == numbered(7));
  });
}

TEST_F(ConnectionTest, CloseWakesWhoeverWaits) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    a->send(Frame{.type = MessageType::OutputChunk, .payload = std::string(4 << 20, 'o')});
    Scope scope(executor());
    int woken = 0;
    const auto receiver = [](Connection& connection, int& count) -> asio::awaitable<void> {
      auto frame = co_await connection.receive();
      if (frame.has_error() && frame.error().code == Errc::Unavailable) ++count;
    };
    const auto flusher = [](Connection& connection, int& count) -> asio::awaitable<void> {
      auto done = co_await connection.flush();
      if (done.has_error() && done.error().code == Errc::Unavailable) ++count;
    };
    scope.spawn("receiver", receiver(*a, woken));
    scope.spawn("flusher", flusher(*a, woken));
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
    a->close();
    co_await scope.join();
    EXPECT_EQ(woken, 2);
  });
}

TEST_F(ConnectionTest, ACancelledReceiveLosesNothing) {
  run([&]() -> asio::awaitable<void> {
    auto [a, fd] = connection_and_fd();
    std::string bytes;
    append_frame(numbered(5), bytes);
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
      write_all(fd, bytes.substr(i, 1));
      auto none = co_await within(1ms, a->receive());
      EXPECT_TRUE(none.has_error() && none.error().code == Errc::Timeout);
    }
    write_all(fd, bytes.substr(bytes.size() - 1));
    auto frame = co_await within(10s, a->receive());
    EXPECT_TRUE(frame.has_value() && *frame == numbered(5));
    ::close(fd);
  });
}

TEST_F(ConnectionTest, WhatIsSentOnAClosedOrABrokenConnectionIsNotKept) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    a->close();
    a->send(numbered(1));
    EXPECT_EQ(a->queued_bytes(), 0u);
    b->send(numbered(1));
    auto lost = co_await within(10s, b->flush());
    EXPECT_TRUE(lost.has_error());
    b->send(numbered(2));
    EXPECT_EQ(b->queued_bytes(), 0u);
  });
}

TEST_F(ConnectionTest, AReceiveWhoseOwnerEndsItSaysSo) {
  run([&]() -> asio::awaitable<void> {
    auto [a, b] = connected_pair();
    co_await expect_a_cancelled_receive_says_so(*a);
  });
}

TEST_F(ConnectionTest, WrongBytesAreAProtocolError) {
  run([&]() -> asio::awaitable<void> {
    auto [a, fd] = connection_and_fd();
    write_all(fd, "GET / HTTP/1.1\r\nHost: 10.0.0.7\r\n\r\n");
    for (int i = 0; i < 2; ++i) {
      auto frame = co_await within(10s, a->receive());
      expect_error(frame, Errc::Protocol, "exceeds 4194304");
    }
    ::close(fd);
  });
}

TEST_F(ConnectionTest, OverTcpASmallFrameLeavesAtOnceAndADeadHostIsNoticed) {
  auto [accepted, fd] = tcp_connection_and_fd();
  const auto connection = Connection::adopt(executor(), fd).value();
  const auto option = [fd = fd](int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 30);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 10);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 3);
}

TEST_F(ConnectionTest, AProgramThatIsStartedGetsNoConnection) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  const auto connection = Connection::adopt(executor(), fds[0]).value();
  EXPECT_EQ(::fcntl(fds[0], F_GETFD), FD_CLOEXEC);
  ::close(fds[1]);
}

// ---- connecting ----

TEST_F(ConnectionTest, ConnectsOverTcpAndKnowsThePeer) {
  run([&]() -> asio::awaitable<void> {
    for (const char* text : {"127.0.0.1:0", "localhost:0", ":0"}) {
      auto listener = Listener::listen(executor(), parse_endpoint(text).value()).value();
      Endpoint target = listener->local_endpoint();
      EXPECT_NE(target.port, 0);
      if (std::string_view(text) != "127.0.0.1:0") target.host_or_path = "localhost";
      auto client = co_await Connection::connect(executor(), target, 10s);
      EXPECT_TRUE(client.has_value()) << text;
      if (!client.has_value()) co_return;
      auto server = co_await within(10s, listener->accept());
      EXPECT_TRUE(server.has_value());
      if (!server.has_value()) co_return;
      (*client)->send(numbered(1));
      auto frame = co_await within(10s, (*server)->receive());
      EXPECT_TRUE(frame.has_value());
      EXPECT_EQ((*client)->peer().substr((*client)->peer().rfind(':')),
                ":" + std::to_string(target.port));
      EXPECT_EQ((*server)->credentials().error().code, Errc::InvalidArgument);
      EXPECT_FALSE((*server)->local_address().empty());
    }
  });
}

TEST_F(ConnectionTest, ConnectsOverAUnixSocketAndKnowsWhoIsThere) {
  run([&]() -> asio::awaitable<void> {
    const Endpoint endpoint = Endpoint::unix_socket((folder_ / "s").string());
    auto listener = Listener::listen(executor(), endpoint).value();
    auto client = co_await Connection::connect(executor(), endpoint, 10s);
    auto server = co_await within(10s, listener->accept());
    EXPECT_TRUE(client.has_value() && server.has_value());
    if (!server.has_value()) co_return;
    const auto who = (*server)->credentials();
    EXPECT_TRUE(who.has_value());
    EXPECT_EQ(who->uid, ::geteuid());
    EXPECT_EQ(who->gid, ::getegid());
    EXPECT_EQ(who->pid, ::getpid());
    EXPECT_EQ((*server)->peer(), "unix:pid " + std::to_string(::getpid()));
  });
}

TEST_F(ConnectionTest, SaysWhyItCannotConnect) {
  run([&]() -> asio::awaitable<void> {
    Endpoint nobody;
    {
      auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
      nobody = listener->local_endpoint();
    }
    auto refused = co_await Connection::connect(executor(), nobody, 10s);
    EXPECT_TRUE(refused.has_error());
    if (refused.has_error()) {
      EXPECT_EQ(refused.error(),
                (Error{Errc::Unavailable, nobody.text() + ": connecting: Connection refused"}));
    }
    const std::string path = (folder_ / "none").string();
    auto missing = co_await Connection::connect(executor(), Endpoint::unix_socket(path), 10s);
    EXPECT_TRUE(missing.has_error());
    if (missing.has_error()) {
      EXPECT_EQ(
          missing.error(),
          (Error{Errc::Unavailable, "unix:" + path + ": connecting: No such file or directory"}));
    }
    // No server is asked about this name; the resolver chooses the words.
    auto unknown = co_await Connection::connect(executor(), Endpoint::tcp("no host", 1), 10s);
    EXPECT_TRUE(unknown.has_error());
    if (unknown.has_error()) {
      EXPECT_EQ(unknown.error().code, Errc::Unavailable);
      EXPECT_NE(unknown.error().message.find("host 'no host' has no address: "), std::string::npos)
          << unknown.error().message;
    }
  });
}

// A network's "no route" means no more than silence: the host may come back.
TEST_F(ConnectionTest, SilenceOfANetworkIsATimeout) {
  const auto connect_after = [&](int error, const Endpoint& endpoint) {
    std::string seen;
    connect_errors = {error};
    run([&]() -> asio::awaitable<void> {
      auto connection = co_await Connection::connect(executor(), endpoint, 10s);
      seen = connection.has_error() ? to_string(connection.error().code) : "connected";
    });
    return seen;
  };
  auto tcp = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
  for (const int error : {EHOSTUNREACH, ENETUNREACH, ENETDOWN, ETIMEDOUT})
    EXPECT_EQ(connect_after(error, tcp->local_endpoint()), "timeout") << ::strerror(error);
  for (const int error : {ECONNREFUSED, ECONNRESET, EADDRNOTAVAIL, EPERM})
    EXPECT_EQ(connect_after(error, tcp->local_endpoint()), "unavailable") << ::strerror(error);
  const Endpoint path = Endpoint::unix_socket((folder_ / "s").string());
  auto local = Listener::listen(executor(), path).value();
  for (const int error : {EAGAIN, EINTR})
    EXPECT_EQ(connect_after(error, path), "connected") << ::strerror(error);
  for (const int error : {ECONNREFUSED, ENOENT})
    EXPECT_EQ(connect_after(error, path), "unavailable") << ::strerror(error);
  EXPECT_EQ(connect_after(EACCES, path), "permission");
}

// The lookup may finish first; then nobody listens on that port.
TEST_F(ConnectionTest, CancelledWhileANameIsLookedUpItSaysSo) {
  run([&]() -> asio::awaitable<void> {
    for (int turns = 0; turns < 4; ++turns) {
      Scope scope(executor());
      std::string seen;
      const auto connect = [](asio::any_io_executor ex, std::string& out) -> asio::awaitable<void> {
        auto connection = co_await Connection::connect(ex, Endpoint::tcp("localhost", 1), 10s);
        out = connection.has_error() ? to_string(connection.error().code) : "connected";
      };
      scope.spawn("connect", connect(executor(), seen));
      for (int i = 0; i < turns; ++i) co_await asio::post(executor(), asio::use_awaitable);
      scope.cancel();
      co_await scope.join();
      EXPECT_TRUE(seen == "cancelled" || seen == "unavailable") << seen;
    }
  });
}

TEST_F(ConnectionTest, AFullQueueOfAUnixSocketEndsInATimeout) {
  run([&]() -> asio::awaitable<void> {
    const std::string path = (folder_ / "full").string();
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd, 0), 0);
    auto first = co_await Connection::connect(executor(), Endpoint::unix_socket(path), 10s);
    EXPECT_TRUE(first.has_value());
    auto second = co_await Connection::connect(executor(), Endpoint::unix_socket(path), 30ms);
    EXPECT_TRUE(second.has_error() && second.error().code == Errc::Timeout);
    ::close(fd);
  });
}

}  // namespace
}  // namespace train
