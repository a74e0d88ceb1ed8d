// TLS with foreign peers, and with an attacker who changes what passes.
#include "lib/net/tls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "lib/net/hmac.h"
#include "lib/wire/link_messages.h"
#include "tests/unit/lib_net/certificates.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

TlsContext context_of(char letter) {
  return TlsContext::from_token(Token(std::string(32, letter)));
}

Frame small_frame() { return {.type = MessageType::Heartbeat, .attempt = {}, .payload = "\x80"}; }

// ---- peers with OpenSSL alone

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Foreign = std::unique_ptr<SSL_CTX, FreeContext>;

Foreign foreign() { return Foreign(SSL_CTX_new(TLS_method())); }

void add_certificate(SSL_CTX* context) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

SSL_SESSION* psk_of_a(SSL* ssl) {
  const std::string token(32, 'A');
  const auto psk = hmac_sha256(token, "trainrun 2 tls psk");
  const unsigned char cipher[] = {0x13, 0x01};
  SSL_SESSION* session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(psk.data()),
                              psk.size());
  SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, cipher));
  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

int use_psk_a(SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* size,
              SSL_SESSION** session) {
  *id = static_cast<const unsigned char*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *size = std::string_view(reinterpret_cast<const char*>(*id)).size();
  *session = psk_of_a(ssl);
  return 1;
}

class TlsTest : public NetTest {
 protected:
  /// Return our end's error, with token A, for this peer, whose end runs in a thread.
  Error meet(SSL_CTX* peer, ConnectionSide side) {
    auto [ours, fd] = tcp_connection_and_fd();
    const std::string name = ours->peer();
    const int peer_fd = fd;
    std::thread thread([peer, side, peer_fd] {
      SSL* ssl = SSL_new(peer);
      SSL_set_fd(ssl, peer_fd);
      const int done = side == ConnectionSide::Connector ? SSL_accept(ssl) : SSL_connect(ssl);
      char byte = 0;
      if (done == 1) SSL_read(ssl, &byte, 1);
      SSL_free(ssl);
      ::shutdown(peer_fd, SHUT_RDWR);
    });
    Error error{Errc::Internal, "it was let in"};
    const TlsContext context = context_of('A');
    run([&, &ours = ours]() -> asio::awaitable<void> {
      auto started = co_await within(10s, ours->start_tls(context, side));
      if (started.has_error()) error = started.error();
    });
    ours.reset();
    thread.join();
    ::close(fd);
    if (error.message.starts_with(name)) error.message.replace(0, name.size(), "PEER");
    return error;
  }
};

// A PSK client with SSL_VERIFY_NONE would accept any server that shows a certificate.
TEST_F(TlsTest, AServerWithACertificateInPlaceOfTheTokenIsRefused) {
  const Foreign peer = foreign();
  add_certificate(peer.get());

  const Error error = meet(peer.get(), ConnectionSide::Connector);

  EXPECT_EQ(error, (Error{Errc::Unauthenticated,
                          "PEER presents a certificate, but a token is required here",
                          "pass --tls, or start it with --token-file"}));
}

TEST_F(TlsTest, AClientWithoutTheTokenIsRefused) {
  const Foreign peer = foreign();

  const Error error = meet(peer.get(), ConnectionSide::Listener);

  EXPECT_EQ(error,
            (Error{Errc::Unauthenticated, "PEER presents no token, but one is required here"}));
}

TEST_F(TlsTest, AClientWithACertificateInPlaceOfTheTokenIsRefused) {
  const Foreign peer = foreign();
  add_certificate(peer.get());

  EXPECT_EQ(meet(peer.get(), ConnectionSide::Listener).message,
            "PEER presents no token, but one is required here");
}

int find_none(SSL*, const unsigned char*, std::size_t, SSL_SESSION** session) {
  *session = nullptr;
  return 1;
}

TEST_F(TlsTest, AServerThatKnowsNoSuchTokenSaysSo) {
  const Foreign peer = foreign();
  SSL_CTX_set_psk_find_session_callback(peer.get(), find_none);

  EXPECT_EQ(meet(peer.get(), ConnectionSide::Connector).describe(),
            "PEER does not know our token (is that a traind?)");
}

TEST_F(TlsTest, OlderVersionsOfTlsAreRefused) {
  const Foreign peer = foreign();
  add_certificate(peer.get());
  SSL_CTX_set_max_proto_version(peer.get(), TLS1_2_VERSION);

  for (const ConnectionSide side : {ConnectionSide::Connector, ConnectionSide::Listener}) {
    EXPECT_EQ(meet(peer.get(), side),
              (Error{Errc::Protocol, "PEER does not speak TLS 1.3 as trainrun does",
                     "is that a traind, or a train-run, of the same version?"}));
  }
}

TEST_F(TlsTest, TheRightKeyUnderAnotherNameIsRefused) {
  for (std::string identity : {"trainrun/3", "trainrun", "trainrun/22", "x"}) {
    const Foreign peer = foreign();
    SSL_CTX_set_app_data(peer.get(), identity.data());
    SSL_CTX_set_psk_use_session_callback(peer.get(), use_psk_a);

    EXPECT_EQ(meet(peer.get(), ConnectionSide::Listener).message,
              "PEER presents no token, but one is required here")
        << identity;
  }
}

// Proves that the tests above fail for the reason they state: this peer is accepted.
TEST_F(TlsTest, APeerByOpensslAloneWithTheRightKeyIsLetIn) {
  for (const char* group : {"X25519", "P-256"}) {
    const Foreign peer = foreign();
    std::string identity = "trainrun/2";
    SSL_CTX_set_app_data(peer.get(), identity.data());
    SSL_CTX_set_psk_use_session_callback(peer.get(), use_psk_a);
    SSL_CTX_set1_groups_list(peer.get(), group);

    EXPECT_EQ(meet(peer.get(), ConnectionSide::Listener).message, "it was let in") << group;
  }
}

int find_psk_a(SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
  *session = psk_of_a(ssl);
  return 1;
}

// A server without the group that we try first asks for another one; we restart, with the PSK.
TEST_F(TlsTest, AServerByOpensslAloneWithTheRightKeyIsTaken) {
  for (const char* group : {"X25519", "P-256"}) {
    const Foreign peer = foreign();
    SSL_CTX_set_psk_find_session_callback(peer.get(), find_psk_a);
    SSL_CTX_set1_groups_list(peer.get(), group);

    EXPECT_EQ(meet(peer.get(), ConnectionSide::Connector).message, "it was let in") << group;
  }
}

// psk_ke would omit Diffie-Hellman: whoever gets the token later could read everything.
TEST_F(TlsTest, AKeyExchangeWithoutForwardSecrecyIsRefused) {
  const Foreign peer = foreign();
  std::string identity = "trainrun/2";
  SSL_CTX_set_app_data(peer.get(), identity.data());
  SSL_CTX_set_psk_use_session_callback(peer.get(), use_psk_a);
  SSL_CTX_set1_groups_list(peer.get(), "P-521");  // not a group that we offer
  SSL_CTX_set_options(peer.get(), SSL_OP_ALLOW_NO_DHE_KEX);

  const Error error = meet(peer.get(), ConnectionSide::Listener);
  EXPECT_EQ(error.code, Errc::Protocol) << error.describe();
}

TEST_F(TlsTest, MoreBytesThanAHandshakeNeedsAreNotRead) {
  auto [ours, fd] = tcp_connection_and_fd();
  // A ClientHello of 16,000 bytes, in one record.
  std::string bytes("\x16\x03\x01\x3e\x84\x01\x00\x3e\x80\x03\x03", 11);
  bytes.resize(5 + 16004, 'x');
  ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  Error error{Errc::Internal, "it was read"};
  const TlsContext context = context_of('A');
  run([&, &ours = ours]() -> asio::awaitable<void> {
    auto started = co_await within(10s, ours->start_tls(context, ConnectionSide::Listener));
    if (started.has_error()) error = started.error();
  });
  EXPECT_EQ(error, (Error{Errc::Protocol, ours->peer() + " sends more than a handshake needs"}));
  ::close(fd);
}

asio::awaitable<void> start(Connection& end, const TlsContext& with, ConnectionSide side) {
  auto started = co_await end.start_tls(with, side);
  EXPECT_TRUE(started.has_value());
}

asio::awaitable<void> start_both(Connection& a, Connection& b, const TlsContext& with) {
  Scope scope(co_await asio::this_coro::executor);
  scope.spawn("a", start(a, with, ConnectionSide::Connector));
  scope.spawn("b", start(b, with, ConnectionSide::Listener));
  co_await scope.join();
}

TEST_F(TlsTest, ComesBeforeTheFirstFrameAndOnce) {
  const TlsContext context = context_of('A');
  auto [a, b] = tcp_pair();
  const auto after_a_frame = [&, &a = a]() -> asio::awaitable<void> {
    a->send(small_frame());
    co_await start(*a, context, ConnectionSide::Connector);
  };
  const auto twice = [&, &a = a, &b = b]() -> asio::awaitable<void> {
    co_await start_both(*a, *b, context);
    co_await start(*a, context, ConnectionSide::Connector);
  };
  EXPECT_DEATH(run(after_a_frame), "TLS comes before the first frame");
  EXPECT_DEATH(run(twice), "TLS comes before the first frame");
}

TEST_F(TlsTest, AReceiveWhoseOwnerEndsItSaysSo) {
  const TlsContext context = context_of('A');
  auto [a, b] = tcp_pair();
  run([&, &a = a, &b = b]() -> asio::awaitable<void> {
    co_await start_both(*a, *b, context);
    co_await expect_a_cancelled_receive_says_so(*a);
  });
}

// OpenSSL's own BIO writes without MSG_NOSIGNAL, so that SIGPIPE would end this test.
TEST_F(TlsTest, APeerThatIsGoneRaisesNoSignal) {
  for (const bool secure : {true, false}) {
    struct sigaction before {};
    struct sigaction as_usual {};
    as_usual.sa_handler = SIG_DFL;
    ::sigaction(SIGPIPE, &as_usual, &before);
    auto [a, b] = tcp_pair();
    const TlsContext context = context_of('A');
    run([&, &a = a, &b = b]() -> asio::awaitable<void> {
      if (secure) co_await start_both(*a, *b, context);
      b->close();
      for (int i = 0; i < 100; ++i) {
        a->send(small_frame());
        auto flushed = co_await within(10s, a->flush());
        if (flushed.has_error()) co_return;
      }
      ADD_FAILURE() << "nothing said that the peer is gone";
    });
    ::sigaction(SIGPIPE, &before, nullptr);
  }
}

// ---- an attacker in the middle

/// Two ends of a TLS connection, with the bytes between them in the test's hands.
class Way {
 public:
  Way(const TlsContext& connector, const TlsContext& listener) {
    int a[2], b[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, a), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, b), 0);
    fds_[0] = a[0], fds_[1] = b[0], way_[0] = a[1], way_[1] = b[1];
    ends_[0] = std::make_unique<TlsStream>(connector, ConnectionSide::Connector, a[0]);
    ends_[1] = std::make_unique<TlsStream>(listener, ConnectionSide::Listener, b[0]);
  }
  ~Way() {
    for (int i : {0, 1}) {
      ::close(fds_[i]);
      ::close(way_[i]);
    }
  }
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  TlsStream& end(int i) { return *ends_[i]; }
  /// Return what end `i` has sent since the last call.
  std::string take_from(int i) {
    char buffer[65536];
    const ssize_t count = ::recv(way_[i], buffer, sizeof buffer, 0);
    return count > 0 ? std::string(buffer, static_cast<std::size_t>(count)) : std::string();
  }
  void give_to(int i, const std::string& bytes) {
    EXPECT_EQ(::send(way_[i], bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void cut(int i) { ::shutdown(way_[i], SHUT_WR); }

 private:
  int fds_[2], way_[2];
  std::unique_ptr<TlsStream> ends_[2];
};

enum class Harm { FlipABit, Cut, Repeat, Swap, LeaveOut };

/// Harm one message of records. Return false if that would change nothing.
bool harm(Harm how, std::string& bytes, std::mt19937& chance) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(chance() % n); };
  switch (how) {
    case Harm::FlipABit: {
      const std::size_t at = below(bytes.size());
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      return true;
    }
    case Harm::Cut:
      bytes.resize(below(bytes.size()));
      return true;
    case Harm::Repeat:
      bytes += bytes;
      return true;
    case Harm::Swap: {
      const std::size_t half = bytes.size() / 2;
      bytes = bytes.substr(half) + bytes.substr(0, half);
      return true;
    }
    case Harm::LeaveOut:
      bytes.clear();
      return true;
  }
  return false;
}

std::string read_all(TlsStream& end) {
  std::string got;
  char buffer[4096];
  for (;;) {
    const IoStep step = end.read(buffer, sizeof buffer);
    if (step.kind != IoStep::Moved) return got;
    got.append(buffer, step.bytes);
  }
}

long trials(long by_default) {
  const char* asked = std::getenv("TRAIN_TLS_TRIALS");
  return asked != nullptr ? std::atol(asked) : by_default;
}

/// Send three records, and harm the middle one. Return what the other end accepts.
std::string after_harm(const TlsContext& context, Harm how, std::mt19937& chance) {
  Way way(context, context);
  for (int round = 0; round < 4; ++round) {
    for (int i : {0, 1}) {
      (void)way.end(i).handshake();
      way.give_to(1 - i, way.take_from(i));
    }
  }
  const int from = static_cast<int>(chance() % 2);
  std::string got;
  for (const std::string record : {"first.", "second.", "third."}) {
    EXPECT_EQ(way.end(from).write(record.data(), record.size()).bytes, record.size());
    std::string bytes = way.take_from(from);
    if (record == "second.") harm(how, bytes, chance);
    way.give_to(1 - from, bytes);
    // A byte that is cut off may equal the next one, which would then do no harm.
    if (how == Harm::Cut && record == "second.") way.cut(1 - from);
    got += read_all(way.end(1 - from));
    if (how == Harm::Cut && record == "second.") break;
  }
  return got;
}

TEST(TlsRecords, WhatWasChangedCutRepeatedOrLeftOutIsNeverTaken) {
  const TlsContext context = context_of('A');
  std::mt19937 chance(42);
  const long count = trials(3000);
  long accepted = 0;
  for (long i = 0; i < count; ++i) {
    const auto how = static_cast<Harm>(i % 5);
    const std::string got = after_harm(context, how, chance);
    const std::string wanted = how == Harm::Repeat ? "first.second." : "first.";
    if (got != wanted) {
      ++accepted;
      ADD_FAILURE() << "trial " << i << ", harm " << static_cast<int>(how) << ": " << got;
      if (accepted > 5) break;
    }
  }
  RecordProperty("trials", std::to_string(count));
}

/// Harm the handshake. Return whether both ends believe that they are connected.
bool connects_after_harm(const TlsContext& context, Harm how, std::mt19937& chance, bool none) {
  Way way(context, context);
  const int victim = static_cast<int>(chance() % 3);  // one of the three messages
  int message = 0;
  bool done[2] = {};
  for (int round = 0; round < 4; ++round) {
    for (int i : {0, 1}) {
      if (!done[i]) done[i] = way.end(i).handshake().kind == IoStep::Moved;
      std::string bytes = way.take_from(i);
      if (bytes.empty()) continue;
      if (message++ == victim && !none) {
        const std::string before = bytes;
        harm(how, bytes, chance);
        // Ignore the version in a record's header: it is for old middleboxes, and nobody signs it
        // (RFC 8446, 5.1).
        for (std::size_t at : {1u, 2u})
          if (bytes.size() > at) bytes[at] = before[at];
        if (bytes == before) return false;
      }
      way.give_to(1 - i, bytes);
    }
  }
  return done[0] && done[1];
}

TEST(TlsRecords, AHandshakeThatWasTamperedWithConnectsNobody) {
  const TlsContext context = context_of('A');
  std::mt19937 chance(43);
  EXPECT_TRUE(connects_after_harm(context, Harm::Cut, chance, true)) << "unharmed";
  const long count = trials(3000);
  for (long i = 0; i < count; ++i) {
    const auto how = static_cast<Harm>(i % 5);
    if (how == Harm::Repeat) continue;  // a repeated record arrives after the handshake: see above
    ASSERT_FALSE(connects_after_harm(context, how, chance, false))
        << "trial " << i << ", harm " << static_cast<int>(how);
  }
}

void connect(Way& way) {
  for (int round = 0; round < 4; ++round) {
    for (int i : {0, 1}) {
      (void)way.end(i).handshake();
      way.give_to(1 - i, way.take_from(i));
    }
  }
}

TEST(TlsRecords, ARecordOfAnotherConnectionIsNotTaken) {
  const TlsContext context = context_of('A');
  Way one(context, context), other(context, context);
  connect(one);
  connect(other);
  ASSERT_EQ(one.end(0).write("stop", 4).bytes, 4u);
  const std::string record = one.take_from(0);

  other.give_to(1, record);
  EXPECT_EQ(read_all(other.end(1)), "");
  one.give_to(0, record);  // sent back to its sender
  EXPECT_EQ(read_all(one.end(0)), "");
  one.give_to(1, record);
  EXPECT_EQ(read_all(one.end(1)), "stop");
}

TEST(TlsRecords, AHandshakeMayTakeSoManyBytesAndNoMore) {
  const PemPair lab = authority_of("lab");
  const TlsContext by_certificate =
      context_of(lab, certificate_of(lab, CertificateRole::Node, "n1"));
  const TlsContext by_token = context_of('A');
  for (const auto& [context, size] :
       {std::pair(&by_token, 4096u), std::pair(&by_certificate, 16384u)}) {
    Way way(*context, *context);
    std::string bytes("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03", 11);  // almost complete
    bytes.resize(size - 1, 'x');
    way.give_to(1, bytes);
    EXPECT_EQ(way.end(1).handshake().kind, IoStep::NeedsRead) << size;
    way.give_to(1, "x");
    EXPECT_EQ(way.end(1).handshake().kind, IoStep::Refused) << size;
    EXPECT_EQ(way.end(1).error("PEER"),
              (Error{Errc::Protocol, "PEER sends more than a handshake needs"}));
  }
}

TEST(TlsRecords, WhatIsNoTlsIsSaidToBeNone) {
  for (const int side : {0, 1}) {
    Way way(context_of('A'), context_of('A'));
    (void)way.end(side).handshake();
    way.give_to(side, "nonsense");
    EXPECT_EQ(way.end(side).handshake().kind, IoStep::Refused);
    EXPECT_EQ(way.end(side).error("PEER").describe(),
              side == 0 ? "PEER does not speak TLS (start it with --token-file)"
                        : "PEER: TLS: wrong version number");
  }
}

TEST(TlsRecords, WhoHasHeardTheEndSaysNothingMore) {
  const TlsContext context = context_of('A');
  Way way(context, context);
  connect(way);
  way.end(0).close();
  way.give_to(1, way.take_from(0));
  char byte = 0;
  EXPECT_EQ(way.end(1).read(&byte, 1).kind, IoStep::Ended);
  way.end(1).close();
  EXPECT_EQ(way.take_from(1), "");
}

TEST(TlsRecords, NoFrameOfOursLooksLikeTls) {
  EXPECT_TRUE(begins_tls(std::string_view("\x16\x03\x01", 3)));
  EXPECT_FALSE(begins_tls(std::string_view("\x16\x03", 2)));
  for (std::size_t size = 0; size <= kHelloPayloadBytesMax; ++size) {
    std::string bytes;
    append_frame({.type = MessageType::Hello, .payload = std::string(size, 'h')}, bytes);
    EXPECT_FALSE(begins_tls(bytes)) << size;
  }
}

}  // namespace
}  // namespace train
