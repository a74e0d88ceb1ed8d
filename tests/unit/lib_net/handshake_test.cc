#include "lib/net/handshake.h"

#include <gtest/gtest.h>

#include "lib/wire/codec.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

const Identity kLauncher{
    .build = "0.1.0+a", .role = "launcher", .host = "login", .pid = 11, .node_name = ""};
const Identity kDaemon{.build = "0.1.0+b",
                       .role = "traind",
                       .host = "node-b.example",
                       .pid = 22,
                       .node_name = "node-b"};

std::optional<Token> token_of(char letter) {
  if (letter == '-') return std::nullopt;
  return Token(std::string(32, letter));
}

class HandshakeTest : public NetTest {
 protected:
  struct Ends {
    std::optional<Result<PeerInfo>> connector, listener;
  };

  static asio::awaitable<void> store(std::optional<Result<PeerInfo>>& out, Task<PeerInfo> task) {
    out = co_await std::move(task);
  }

  Ends shake(Connection& a, Connection& b, const std::optional<Token>& token_a,
             const std::optional<Token>& token_b, HandshakeLimits limits_a = {},
             HandshakeLimits limits_b = {}) {
    Ends ends;
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("connector",
                  store(ends.connector, connect_handshake(a, kLauncher, token_a, limits_a)));
      scope.spawn("listener",
                  store(ends.listener, accept_handshake(b, kDaemon, token_b, limits_b)));
      co_await scope.join();
    });
    return ends;
  }

  static std::string text(const std::optional<Result<PeerInfo>>& end) {
    if (!end) return "did not end";
    return end->has_value()
               ? "ok"
               : std::string(to_string(end->error().code)) + ": " + end->error().describe();
  }
};

TEST_F(HandshakeTest, EachSideWithEachToken) {
  const std::string peer = "unix:pid " + std::to_string(::getpid());
  const std::string mismatch = "token does not match (both sides need the same token file)";
  struct Case {
    char connector, listener;
    std::string connector_text, listener_text;
  };
  const std::string no_token_at_connector =
      "unauthenticated: " + peer +
      " refuses: peer asks for a token, none is set (pass --token-file)";
  const std::string asked_in_vain =
      "unauthenticated: " + peer + " shows no token, and one is asked for here";
  const std::string no_token_at_listener =
      "unauthenticated: " + peer + " asks for a token, none is set (pass --token-file)";
  const std::string not_shown =
      "unauthenticated: " + peer +
      " refuses: peer has no token to show, and one is asked for here (start it with --token-file)";
  const std::string wrong_here = "unauthenticated: " + peer + ": " + mismatch,
                    wrong_there = "unauthenticated: " + peer + " refuses: " + mismatch;
  // The one that says "peer asks for a token" is the one without; the connector is the first to see
  // a wrong proof.
  const Case cases[] = {
      {'-', '-', "ok", "ok"},
      {'-', 'A', no_token_at_connector, asked_in_vain},
      {'-', 'B', no_token_at_connector, asked_in_vain},
      {'A', '-', not_shown, no_token_at_listener},
      {'A', 'A', "ok", "ok"},
      {'A', 'B', wrong_here, wrong_there},
      {'B', '-', not_shown, no_token_at_listener},
      {'B', 'A', wrong_here, wrong_there},
      {'B', 'B', "ok", "ok"},
  };
  for (const Case& c : cases) {
    auto [a, b] = connected_pair();
    const Ends ends = shake(*a, *b, token_of(c.connector), token_of(c.listener));
    EXPECT_EQ(text(ends.connector), c.connector_text) << c.connector << c.listener;
    EXPECT_EQ(text(ends.listener), c.listener_text) << c.connector << c.listener;
    EXPECT_EQ(a->is_open(), c.connector_text == "ok");
    EXPECT_EQ(b->is_open(), c.listener_text == "ok");
  }
}

TEST_F(HandshakeTest, EachSideLearnsWhoIsThereAndTheConnectionWorksOn) {
  for (const char token : {'-', 'A'}) {
    auto [a, b] = connected_pair();
    const Ends ends = shake(*a, *b, token_of(token), token_of(token));
    ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
    const PeerInfo& daemon = **ends.connector;
    EXPECT_EQ(daemon.protocol, 1u);
    EXPECT_EQ(daemon.build + " " + daemon.role + " " + daemon.host + " " + daemon.node_name,
              "0.1.0+b traind node-b.example node-b");
    EXPECT_EQ(daemon.pid, 22);
    const PeerInfo& launcher = **ends.listener;
    EXPECT_EQ(launcher.build + " " + launcher.role + " " + launcher.host + " " + launcher.node_name,
              "0.1.0+a launcher login ");
    EXPECT_EQ(launcher.pid, 11);
    run([&, &a = a, &b = b]() -> asio::awaitable<void> {
      const Frame big{.type = MessageType::OutputChunk,
                      .attempt = Attempt{1},
                      .payload = std::string(kFramePayloadBytesMax, 'o')};
      a->send(big);
      auto there = co_await within(10s, b->receive());
      EXPECT_TRUE(there.has_value() && *there == big);
      b->send(big);
      auto back = co_await within(10s, a->receive());
      EXPECT_TRUE(back.has_value() && *back == big);
    });
  }
}

TEST_F(HandshakeTest, VersionsWithoutOverlapAreRefusedWithBothBuilds) {
  const std::string peer = "unix:pid " + std::to_string(::getpid());
  const std::string text_of_both =
      "launcher 0.1.0+a speaks protocol 2 to 3, traind 0.1.0+b speaks 1 to 1 (install the same "
      "version of trainrun on both machines)";
  auto [a, b] = connected_pair();
  const Ends ends = shake(*a, *b, {}, {}, {.protocol_min = 2, .protocol_max = 3},
                          {.protocol_min = 1, .protocol_max = 1});
  EXPECT_EQ(text(ends.listener), "protocol: " + text_of_both);
  EXPECT_EQ(text(ends.connector), "protocol: " + peer + " refuses: " + text_of_both);
}

TEST_F(HandshakeTest, TheHighestCommonVersionIsChosen) {
  auto [a, b] = connected_pair();
  const Ends ends =
      shake(*a, *b, token_of('A'), token_of('A'), {.protocol_min = 2, .protocol_max = 5},
            {.protocol_min = 1, .protocol_max = 4});
  ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
  EXPECT_EQ((*ends.connector)->protocol, 4u);
  EXPECT_EQ((*ends.listener)->protocol, 4u);
}

// ---- a peer of its own: what the listener makes of bytes that we write ----

class HostilePeerTest : public HandshakeTest {
 protected:
  static std::string bytes_of(const Frame& frame) {
    std::string bytes;
    append_frame(frame, bytes);
    return bytes;
  }

  // The listener's verdict, and the Refused that the peer reads.
  std::pair<std::string, std::string> accept_with(const std::optional<Token>& token,
                                                  const std::string& bytes,
                                                  HandshakeLimits limits = {}) {
    auto [listener, fd] = connection_and_fd();
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string verdict;
    run([&, &listener = listener]() -> asio::awaitable<void> {
      auto result = co_await accept_handshake(*listener, kDaemon, token, limits);
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
                 .auth = "token",
                 .nonce = std::string(32, 'n')};
  }
  const std::string peer_ = "unix:pid " + std::to_string(::getpid());
};

TEST_F(HostilePeerTest, ALargeFrameBeforeTheHelloIsRefusedByItsHeader) {
  const std::string header =
      bytes_of(Frame{.type = MessageType::Hello, .payload = std::string(4097, 'h')}).substr(0, 16);
  const auto [verdict, refused] = accept_with({}, header);
  EXPECT_EQ(verdict, "protocol: " + peer_ + ": frame of 4097 bytes exceeds 4096");
  EXPECT_EQ(refused, peer_ + ": frame of 4097 bytes exceeds 4096");
}

TEST_F(HostilePeerTest, AnotherFrameThanAHelloIsRefused) {
  const auto [verdict, refused] = accept_with({}, bytes_of(encode(AttachRun{})));
  EXPECT_EQ(verdict, "protocol: " + peer_ + " sends AttachRun where Hello is due");
  EXPECT_EQ(refused, peer_ + " sends AttachRun where Hello is due");
}

TEST_F(HostilePeerTest, ASilentPeerMeetsTheLimit) {
  const std::string half = bytes_of(encode(hello())).substr(0, 20);
  const auto [verdict, refused] = accept_with({}, half, {.time = 20ms});
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

TEST_F(HostilePeerTest, WithoutTheTokenNoProofIsGoodEnough) {
  const std::string mismatch =
      "unauthenticated: " + peer_ + ": token does not match (both sides need the same token file)";
  for (const std::string& proof :
       {std::string(), std::string(32, '\0'), std::string(31, 'x'), std::string(33, 'x')}) {
    AuthProof answer;
    answer.proof = proof;
    EXPECT_EQ(
        accept_with(token_of('A'), bytes_of(encode(hello())) + bytes_of(encode(answer))).first,
        mismatch);
  }
}

TEST_F(HostilePeerTest, ANonceOfAnotherLengthIsRefused) {
  Hello bad = hello();
  bad.nonce = "short";
  EXPECT_EQ(accept_with(token_of('A'), bytes_of(encode(bad))).second,
            "nonce of 5 bytes instead of 32");
}

TEST_F(HostilePeerTest, TheListenersOwnProofSentBackIsNoProof) {
  auto [listener, fd] = connection_and_fd();
  const std::string first = bytes_of(encode(hello()));
  ASSERT_EQ(::write(fd, first.data(), first.size()), static_cast<ssize_t>(first.size()));
  const int peer_fd = fd;
  std::string verdict;
  run([&, &listener = listener]() -> asio::awaitable<void> {
    Scope scope(executor());
    std::optional<Result<PeerInfo>> result;
    const auto token = token_of('A');
    scope.spawn("listener", store(result, accept_handshake(*listener, kDaemon, token)));
    auto end = Connection::adopt(executor(), ::dup(peer_fd)).value();
    auto reply_frame = co_await within(10s, end->receive());
    AuthProof reflected;
    reflected.proof = decode<HelloReply>(*reply_frame)->proof;
    EXPECT_EQ(reflected.proof.size(), 32u);
    end->send(encode(reflected));
    co_await scope.join();
    verdict = text(result);
  });
  ::close(fd);
  EXPECT_EQ(verdict, "unauthenticated: " + peer_ +
                         ": token does not match (both sides need the same token file)");
}

TEST_F(HostilePeerTest, AListenerWithoutTheTokenCannotPassForOneThatHasIt) {
  for (const char* auth : {"none", "token"}) {
    auto [a, b] = connected_pair();
    std::string verdict;
    run([&, &a = a, &b = b]() -> asio::awaitable<void> {
      HelloReply reply{.protocol = 1,
                       .build = "x",
                       .role = "traind",
                       .host = "h",
                       .node_name = "n",
                       .pid = 1,
                       .auth = auth,
                       .nonce = std::string(32, 'n'),
                       .proof = std::string(32, 'p')};
      b->send(encode(reply));
      const auto token = token_of('A');
      auto result = co_await connect_handshake(*a, kLauncher, token);
      verdict = text(result);
    });
    EXPECT_EQ(verdict, std::string("unauthenticated: ") + peer_ +
                           (std::string(auth) == "none"
                                ? " shows no token, and one is asked for here"
                                : ": token does not match (both sides need the same token file)"));
  }
}

}  // namespace
}  // namespace train
