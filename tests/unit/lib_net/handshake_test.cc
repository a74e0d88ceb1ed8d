#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"
#include "tests/unit/lib_net/handshake_fixture.h"

namespace train {
namespace {

std::optional<TlsContext> tls_of(char letter) {
  if (letter == '-') return std::nullopt;
  return TlsContext::from_token(Token(std::string(32, letter)));
}

TEST_F(HandshakeTest, EachSideWithEachTokenOverANetwork) {
  struct Case {
    char connector, listener;
    std::string connector_text, listener_text;  // {} stands for the peer's name
  };
  const std::string none_here =
                        "unauthenticated: {} refuses: peer asks for a token, none is set "
                        "(pass --token-file)",
                    in_vain = "unauthenticated: {} presents no token, but one is required here",
                    no_tls = "unauthenticated: {} does not speak TLS (start it with --token-file)",
                    none_there =
                        "unauthenticated: {} requires TLS, but neither a token nor certificates "
                        "are set (pass --token-file or --tls)",
                    mismatch =
                        "unauthenticated: {}: token does not match (both sides need the same token "
                        "file)";
  const Case cases[] = {
      {'-', '-', "ok", "ok"},         {'-', 'A', none_here, in_vain},
      {'-', 'B', none_here, in_vain}, {'A', '-', no_tls, none_there},
      {'A', 'A', "ok", "ok"},         {'A', 'B', mismatch, mismatch},
      {'B', '-', no_tls, none_there}, {'B', 'A', mismatch, mismatch},
      {'B', 'B', "ok", "ok"},
  };
  for (const Case& c : cases) {
    auto [a, b] = tcp_pair();
    const std::string listener = a->peer(), connector = b->peer();
    const Ends ends = shake(*a, *b, tls_of(c.connector), tls_of(c.listener));
    EXPECT_EQ(text(ends.connector), fmt::format(fmt::runtime(c.connector_text), listener))
        << c.connector << c.listener;
    EXPECT_EQ(text(ends.listener), fmt::format(fmt::runtime(c.listener_text), connector))
        << c.connector << c.listener;
    EXPECT_EQ(a->is_open(), c.connector_text == "ok");
    EXPECT_EQ(b->is_open(), c.listener_text == "ok");
  }
}

TEST_F(HandshakeTest, AUnixSocketIsPlainWhateverTokensThereAre) {
  for (const char connector : {'-', 'A'}) {
    for (const char listener : {'-', 'B'}) {
      auto [a, b] = connected_pair();
      const Ends ends = shake(*a, *b, tls_of(connector), tls_of(listener));
      EXPECT_EQ(text(ends.connector) + text(ends.listener), "okok") << connector << listener;
    }
  }
}

TEST_F(HandshakeTest, EachSideLearnsWhoIsThereAndTheConnectionWorksOn) {
  for (const char token : {'-', 'A'}) {
    auto [a, b] = tcp_pair();
    const Ends ends = shake(*a, *b, tls_of(token), tls_of(token));
    ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
    const PeerInfo& daemon = **ends.connector;
    EXPECT_EQ(daemon.protocol, kProtocolMax);
    EXPECT_EQ(daemon.build + " " + daemon.role + " " + daemon.host + " " + daemon.node_name,
              "9.8.7+b traind node-b.example node-b");
    EXPECT_EQ(daemon.pid, 22);
    const PeerInfo& launcher = **ends.listener;
    EXPECT_EQ(launcher.build + " " + launcher.role + " " + launcher.host + " " + launcher.node_name,
              "9.8.7+a launcher login ");
    EXPECT_EQ(launcher.pid, 11);
    run([&, &a = a, &b = b]() -> asio::awaitable<void> {
      const Frame big{.type = MessageType::OutputChunk,
                      .attempt = Attempt{1},
                      .payload = std::string(kFramePayloadBytesMax, 'o')};
      a->send(big);
      b->send(big);  // concurrently: each writes before it reads
      b->send(big);
      for (Connection* end : {b.get(), a.get(), a.get()}) {
        auto there = co_await within(10s, end->receive());
        EXPECT_TRUE(there.has_value() && *there == big);
      }
    });
  }
}

TEST_F(HandshakeTest, ABindingIsOfOneConnectionAndTheSameAtItsEnds) {
  const auto binding_with = [&](char token) {
    auto [a, b] = tcp_pair();
    const Ends ends = shake(*a, *b, tls_of(token), tls_of(token));
    EXPECT_EQ(text(ends.connector) + text(ends.listener), "okok");
    EXPECT_EQ(a->binding(), b->binding());
    return a->binding();
  };
  const std::string one = binding_with('A'), other = binding_with('A');
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(other.size(), 32u);
  EXPECT_NE(one, other);
  EXPECT_EQ(binding_with('-'), "");
}

// Use one socket after the other, mostly with the same number: what woke one must not reach the
// next.
TEST_F(HandshakeTest, ManyInARowOverANetwork) {
  auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
  const auto tls = tls_of('A');
  for (int i = 0; i < 200; ++i) {
    Ends ends;
    const auto accept = [](Listener& from, const std::optional<TlsContext>& with,
                           std::optional<Result<PeerInfo>>& out) -> asio::awaitable<void> {
      auto link = co_await from.accept();
      out = co_await accept_handshake(**link, kDaemon, with);
    };
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("listener", accept(*listener, tls, ends.listener));
      auto link = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
      ends.connector = co_await connect_handshake(**link, kLauncher, tls);
      co_await scope.join();
    });
    ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok") << "round " << i;
  }
}

// In plaintext, a connector would take a busy listener for one without a token, and give up.
TEST_F(HandshakeTest, AConnectorThatMeetsTheLimitHearsNothingInPlain) {
  for (const std::string sent : {"", "\x16\x03", "\x16\x03\x01"}) {
    auto [listener, fd] = tcp_connection_and_fd();
    ASSERT_EQ(::write(fd, sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
    const std::string peer = listener->peer();
    std::string verdict;
    const auto tls = tls_of('A');
    run([&, &listener = listener]() -> asio::awaitable<void> {
      auto result = co_await accept_handshake(*listener, kDaemon, tls, {.time = 20ms});
      verdict = text(result);
    });
    EXPECT_EQ(verdict, "timeout: " + peer + ": handshake not over within 20 ms");
    char byte = 0;
    EXPECT_LE(::read(fd, &byte, 1), 0) << sent;
    ::close(fd);
  }
}

TEST_F(HandshakeTest, APeerOfFewerBytesThanTlsBeginsWithIsHeard) {
  for (const std::string sent : {"", "\x16", "\x16\x03"}) {
    auto [listener, fd] = tcp_connection_and_fd();
    ASSERT_EQ(::write(fd, sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
    ::shutdown(fd, SHUT_WR);
    const std::string peer = listener->peer();
    std::string verdict;
    const auto tls = tls_of('A');
    run([&, &listener = listener]() -> asio::awaitable<void> {
      auto result = co_await accept_handshake(*listener, kDaemon, tls);
      verdict = text(result);
    });
    EXPECT_EQ(verdict, "unavailable: " + peer + " closed the connection");
    ::close(fd);
  }
}

// Peeking would return the bytes before an urgent one again and again.
TEST_F(HandshakeTest, AnUrgentByteDoesNotHoldUpTheOthers) {
  auto [listener, fd] = tcp_connection_and_fd();
  ASSERT_EQ(::send(fd, "\x16\x03", 2, 0), 2);
  ASSERT_EQ(::send(fd, "!", 1, MSG_OOB), 1);
  ASSERT_EQ(::send(fd, "\x01", 1, 0), 1);
  bool tls = false;
  run([&, &listener = listener]() -> asio::awaitable<void> {
    auto begins = co_await within(10s, listener->peer_begins_tls());
    tls = begins.has_value() && *begins;
  });
  EXPECT_TRUE(tls);
  ::close(fd);
}

// RFC 9257: with one PSK for both directions, an attacker can lead a connection back to its origin.
TEST_F(HandshakeTest, AProcessDoesNotTalkToItself) {
  auto [a, b] = tcp_pair();
  const std::string listener = a->peer(), connector = b->peer();
  Identity both = kDaemon;
  both.instance = kLauncher.instance;
  Ends ends;
  const auto tls = tls_of('A');
  run([&, &a = a, &b = b]() -> asio::awaitable<void> {
    Scope scope(executor());
    scope.spawn("connector", store(ends.connector, connect_handshake(*a, kLauncher, tls)));
    scope.spawn("listener", store(ends.listener, accept_handshake(*b, both, tls)));
    co_await scope.join();
  });
  const std::string self =
      " is this process itself (correct the address; if it is right, someone on the network "
      "redirects the connection)";
  EXPECT_EQ(text(ends.listener), "unauthenticated: " + connector + self);
  EXPECT_EQ(text(ends.connector), "unauthenticated: " + listener + " refuses: " + connector + self);
}

TEST_F(HandshakeTest, TwoOfTheSameRoleDoNotTalk) {
  auto [a, b] = tcp_pair();
  const std::string connector = b->peer();
  Identity other = kDaemon;
  other.instance = std::string(16, 'o');
  Ends ends;
  const auto tls = tls_of('A');
  run([&, &a = a, &b = b]() -> asio::awaitable<void> {
    Scope scope(executor());
    scope.spawn("connector", store(ends.connector, connect_handshake(*a, other, tls)));
    scope.spawn("listener", store(ends.listener, accept_handshake(*b, kDaemon, tls)));
    co_await scope.join();
  });
  EXPECT_EQ(text(ends.listener), "unauthenticated: " + connector +
                                     " says that it is a traind, like this side (correct the "
                                     "address)");
}

TEST_F(HandshakeTest, AProcessHasOneInstanceAndItIsRandom) {
  EXPECT_EQ(process_instance().size(), 16u);
  EXPECT_EQ(Identity{}.instance, process_instance());
  EXPECT_NE(process_instance(), std::string(16, '\0'));
}

TEST_F(HandshakeTest, VersionsWithoutOverlapAreRefusedWithBothBuilds) {
  const std::string peer = "unix:pid " + std::to_string(::getpid());
  const std::string text_of_both =
      "launcher 9.8.7+a speaks protocol 2 to 3, traind 9.8.7+b speaks 1 to 1 (install the same "
      "version of trainrun on both machines)";
  auto [a, b] = connected_pair();
  const Ends ends = shake(*a, *b, {}, {}, {.protocol_min = 2, .protocol_max = 3},
                          {.protocol_min = 1, .protocol_max = 1});
  EXPECT_EQ(text(ends.listener), "protocol: " + text_of_both);
  EXPECT_EQ(text(ends.connector), "protocol: " + peer + " refuses: " + text_of_both);
}

TEST_F(HandshakeTest, TheHighestCommonVersionIsChosen) {
  auto [a, b] = connected_pair();
  const Ends ends = shake(*a, *b, tls_of('A'), tls_of('A'), {.protocol_min = 2, .protocol_max = 5},
                          {.protocol_min = 1, .protocol_max = 4});
  ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
  EXPECT_EQ((*ends.connector)->protocol, 4u);
  EXPECT_EQ((*ends.listener)->protocol, 4u);
}

// ---- a peer of its own: how the listener handles bytes that we write ----

class HostilePeerTest : public HandshakeTest {
 protected:
  static std::string bytes_of(const Frame& frame) {
    std::string bytes;
    append_frame(frame, bytes);
    return bytes;
  }

  // Return the listener's verdict, and the Refused that the peer reads.
  std::pair<std::string, std::string> accept_with(const std::string& bytes,
                                                  HandshakeLimits limits = {}) {
    auto [listener, fd] = connection_and_fd();
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string verdict;
    run([&, &listener = listener]() -> asio::awaitable<void> {
      auto result = co_await accept_handshake(*listener, kDaemon, std::nullopt, limits);
      verdict = text(result);
    });
    listener.reset();
    FrameReader reader;
    char buffer[8192];
    for (ssize_t count; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
      reader.feed({buffer, static_cast<std::size_t>(count)});
    ::close(fd);
    std::string refused = "nothing";
    for (auto frame = reader.next(); frame.has_value() && frame->has_value();
         frame = reader.next()) {
      if ((**frame).type == MessageType::Refused) refused = decode<Refused>(**frame)->message;
    }
    return {verdict, refused};
  }

  static Hello hello() {
    return Hello{.build = "x",
                 .role = "launcher",
                 .host = "h",
                 .node_name = "",
                 .pid = 1,
                 .instance = std::string(16, 'x')};
  }
  const std::string peer_ = "unix:pid " + std::to_string(::getpid());
};

TEST_F(HostilePeerTest, ALargeFrameBeforeTheHelloIsRefusedByItsHeader) {
  const std::string header =
      bytes_of(Frame{.type = MessageType::Hello, .payload = std::string(4097, 'h')}).substr(0, 16);
  const auto [verdict, refused] = accept_with(header);
  EXPECT_EQ(verdict, "protocol: " + peer_ + ": frame of 4097 bytes exceeds 4096");
  EXPECT_EQ(refused, peer_ + ": frame of 4097 bytes exceeds 4096");
}

TEST_F(HostilePeerTest, AnotherFrameThanAHelloIsRefused) {
  const auto [verdict, refused] = accept_with(bytes_of(encode(AttachRun{})));
  EXPECT_EQ(verdict, "protocol: " + peer_ + " sent AttachRun instead of Hello");
  EXPECT_EQ(refused, peer_ + " sent AttachRun instead of Hello");
}

TEST_F(HostilePeerTest, ASilentPeerMeetsTheLimit) {
  const std::string half = bytes_of(encode(hello())).substr(0, 20);
  const auto [verdict, refused] = accept_with(half, {.time = 20ms});
  EXPECT_EQ(verdict, "timeout: " + peer_ + ": handshake not over within 20 ms");
  EXPECT_EQ(refused, peer_ + ": handshake not over within 20 ms");
}

TEST_F(HostilePeerTest, APeerThatSendsByteByByteMeetsTheLimitToo) {
  auto [listener, fd] = connection_and_fd();
  std::string verdict;
  const int peer_fd = fd;
  run([&, &listener = listener]() -> asio::awaitable<void> {
    Scope scope(executor());
    const auto dribble = [](int out, std::string bytes) -> asio::awaitable<void> {
      for (const char byte : bytes) {
        if (::write(out, &byte, 1) != 1) co_return;
        auto paused = co_await pause_for(2ms);
        if (paused.has_error()) co_return;
      }
    };
    scope.spawn("dribble", dribble(peer_fd, bytes_of(encode(hello()))));
    auto result = co_await accept_handshake(*listener, kDaemon, std::nullopt, {.time = 30ms});
    verdict = text(result);
    scope.cancel();
    co_await scope.join();
  });
  EXPECT_EQ(verdict, "timeout: " + peer_ + ": handshake not over within 30 ms");
  ::close(fd);
}

TEST_F(HostilePeerTest, APeerThatLeavesIsUnavailable) {
  auto [a, b] = connected_pair();
  b->close();
  run([&, &a = a]() -> asio::awaitable<void> {
    auto result = co_await connect_handshake(*a, kLauncher, std::nullopt, {});
    EXPECT_TRUE(result.has_error() && result.error().code == Errc::Unavailable) << text(result);
  });
  EXPECT_FALSE(a->is_open());
}

TEST_F(HostilePeerTest, AReplyOfAVersionThatWasNotOfferedIsRefused) {
  for (const std::uint32_t protocol : {1u, 2u, 4u, 5u}) {
    auto [connector, fd] = connection_and_fd();
    const std::string bytes = bytes_of(encode(HelloReply{.protocol = protocol,
                                                         .build = "x",
                                                         .role = "traind",
                                                         .host = "h",
                                                         .node_name = "",
                                                         .pid = 1,
                                                         .instance = std::string(16, 'x')}));
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string verdict;
    run([&, &connector = connector]() -> asio::awaitable<void> {
      auto result = co_await connect_handshake(*connector, kLauncher, std::nullopt,
                                               {.protocol_min = 2, .protocol_max = 4});
      verdict = text(result);
    });
    const bool offered = protocol == 2 || protocol == 4;
    EXPECT_EQ(verdict, offered
                           ? "ok"
                           : "protocol: launcher 9.8.7+a speaks protocol 2 to 4, traind x speaks " +
                                 std::to_string(protocol) +
                                 " (install the same version of trainrun on both machines)");
    ::close(fd);
  }
}

TEST_F(HostilePeerTest, AnInstanceOfAnotherLengthIsRefused) {
  Hello bad = hello();
  bad.instance = "short";
  EXPECT_EQ(accept_with(bytes_of(encode(bad))).second,
            peer_ + " has an instance of 5 bytes instead of 16");
}

}  // namespace
}  // namespace train
