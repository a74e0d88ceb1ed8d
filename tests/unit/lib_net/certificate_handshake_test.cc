// Which peers accept each other if they show certificates instead of a token.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/lib_net/certificates.h"
#include "tests/unit/lib_net/handshake_fixture.h"

namespace train {
namespace {

constexpr auto kNode = CertificateRole::Node, kLauncher = CertificateRole::Launcher;
using Tls = std::optional<TlsContext>;

class CertificateHandshake : public HandshakeTest {
 protected:
  /// Return the results of connector and listener; LISTENER and CONNECTOR stand for the peers.
  std::pair<std::string, std::string> meet(const Tls& connector, const Tls& listener) {
    auto [a, b] = tcp_pair();
    const std::string listener_name = a->peer(), connector_name = b->peer();
    const Ends ends = shake(*a, *b, connector, listener);
    return {named(text(ends.connector), listener_name, "LISTENER"),
            named(text(ends.listener), connector_name, "CONNECTOR")};
  }
  static std::string named(std::string text, const std::string& peer, const std::string& name) {
    for (std::size_t at; (at = text.find(peer)) != std::string::npos;)
      text.replace(at, peer.size(), name);
    return text;
  }
  Tls node(const std::string& name = "node-b") const {
    return context_of(lab_, certificate_of(lab_, kNode, name));
  }
  Tls launcher(const std::string& name = "ada") const {
    return context_of(lab_, certificate_of(lab_, kLauncher, name));
  }
  /// Return a context that trusts `authority` in addition to its own.
  static Tls trusting(const PemPair& authority, const PemPair& own_authority, const PemPair& own) {
    const std::string both = authority.certificate + own_authority.certificate;
    return TlsContext::from_certificates({both, own.certificate, own.key}).value();
  }

  /// Return our result with a peer that uses OpenSSL alone, until its first frame.
  std::string start_tls_with(SSL_CTX* peer, const Tls& ours, ConnectionSide side) {
    auto [connection, fd] = tcp_connection_and_fd();
    const std::string name = connection->peer();
    std::thread thread([peer, side, peer_fd = fd] {
      const Openssl<SSL> ssl(SSL_new(peer));
      SSL_set_fd(ssl.get(), peer_fd);
      const int done =
          side == ConnectionSide::Connector ? SSL_accept(ssl.get()) : SSL_connect(ssl.get());
      char byte = 0;
      if (done == 1) SSL_read(ssl.get(), &byte, 1);
      ::shutdown(peer_fd, SHUT_RDWR);
    });
    std::string verdict = "it was let in";
    run([&, &connection = connection]() -> asio::awaitable<void> {
      auto started = co_await within(10s, connection->start_tls(*ours, side));
      if (started.has_error()) {
        verdict = started.error().describe();
        co_return;
      }
      auto frame = co_await within(10s, connection->receive());
      if (frame.has_error()) verdict = frame.error().describe();
    });
    connection.reset();
    thread.join();
    ::close(fd);
    return named(verdict, name, "PEER");
  }

  const PemPair lab_ = authority_of("lab"), other_ = authority_of("lab");
  const Tls token_ = TlsContext::from_token(Token(std::string(32, 'A'))), none_;
  static constexpr const char* kRefusesOurs =
      "unauthenticated: {} refuses our certificate (both sides need certificates of one authority, "
      "or the same token)";
};

using Pair = std::pair<std::string, std::string>;

TEST_F(CertificateHandshake, ALauncherAndANodeOfOneClusterMeet) {
  auto [a, b] = tcp_pair();
  const Ends ends = shake(*a, *b, launcher(), node());
  ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
  EXPECT_EQ((*ends.connector)->certificate, (CertificateName{"lab", kNode, "node-b"}));
  EXPECT_EQ((*ends.listener)->certificate, (CertificateName{"lab", kLauncher, "ada"}));
  EXPECT_EQ(b->certificate_name(), (CertificateName{"lab", kLauncher, "ada"}));
  run([&, &a = a, &b = b]() -> asio::awaitable<void> {
    const Frame frame{.type = MessageType::OutputChunk, .attempt = Attempt{1}, .payload = "hello"};
    a->send(frame);
    auto there = co_await within(10s, b->receive());
    EXPECT_TRUE(there.has_value() && *there == frame);
  });
}

TEST_F(CertificateHandshake, NobodyFallsBack) {
  EXPECT_EQ(meet(launcher(), token_),
            (Pair{"unauthenticated: LISTENER asks for a token (pass --token-file)",
                  "unauthenticated: CONNECTOR presents no token, but one is required here"}));
  EXPECT_EQ(meet(token_, node()),
            (Pair{"unauthenticated: LISTENER presents a certificate, but a token is required here "
                  "(pass --tls, or start it with --token-file)",
                  fmt::format(fmt::runtime(kRefusesOurs), "CONNECTOR")}));
  EXPECT_EQ(meet(none_, node()),
            (Pair{"unauthenticated: LISTENER refuses: peer asks for a certificate, none is set "
                  "(pass --tls)",
                  "unauthenticated: CONNECTOR presents no certificate, but one is required here"}));
  EXPECT_EQ(meet(launcher(), none_).first,
            "unauthenticated: LISTENER does not speak TLS (start it with --tls)");
}

TEST_F(CertificateHandshake, OfAnotherAuthorityNobodyIsLetIn) {
  const PemPair stranger = certificate_of(other_, kLauncher, "ada"),
                strange_node = certificate_of(other_, kNode, "node-b");
  const std::string not_signed =
      "its certificate is not signed by an authority in ca.crt (both sides need certificates of "
      "one authority)";
  EXPECT_EQ(meet(trusting(lab_, other_, stranger), node()),
            (Pair{fmt::format(fmt::runtime(kRefusesOurs), "LISTENER"),
                  "unauthenticated: CONNECTOR: " + not_signed}));
  EXPECT_EQ(meet(launcher(), trusting(lab_, other_, strange_node)),
            (Pair{"unauthenticated: LISTENER: " + not_signed,
                  fmt::format(fmt::runtime(kRefusesOurs), "CONNECTOR")}));
}

// When an authority is replaced, both count for a while, and nobody has to stop.
TEST_F(CertificateHandshake, TwoAuthoritiesMayCount) {
  const PemPair renewed = certificate_of(other_, kLauncher, "ada");
  EXPECT_EQ(meet(trusting(lab_, other_, renewed),
                 trusting(other_, lab_, certificate_of(lab_, kNode, "node-b"))),
            (Pair{"ok", "ok"}));
}

TEST_F(CertificateHandshake, ANodesCertificateIsNoLaunchers) {
  // A site's own authority issued them for both uses, so that only the name tells the role.
  const auto both_uses = [&](const std::string& uri) {
    return context_of(lab_,
                      foreign_certificate(lab_, {{NID_subject_alt_name, "URI:" + uri},
                                                 {NID_ext_key_usage, "serverAuth,clientAuth"}}));
  };
  EXPECT_EQ(meet(both_uses("trainrun://lab/node/n2"), node()).second,
            "unauthenticated: CONNECTOR: its certificate names trainrun://lab/node/n2, but a "
            "launcher of cluster 'lab' is required");
  const auto [connector, listener] = meet(launcher(), both_uses("trainrun://lab/launcher/bob"));
  const std::string names =
      "certificate names trainrun://lab/launcher/bob, but a node of cluster 'lab' is required";
  EXPECT_EQ(connector, "unauthenticated: LISTENER: its " + names);
  EXPECT_EQ(listener,
            "unauthenticated: CONNECTOR: its certificate names trainrun://lab/launcher/ada, but a "
            "node of cluster 'lab' is required");
  // Ours are for one use each, so TLS refuses them first.
  EXPECT_EQ(meet(node("n2"), node()).second,
            "unauthenticated: CONNECTOR: its certificate was not issued for this side of a "
            "connection (nodes need the usage serverAuth, launchers clientAuth)");
}

TEST_F(CertificateHandshake, AnotherClusterOfTheSameAuthorityIsAnotherCluster) {
  const PemPair site = authority_of("site");
  const auto of = [&](const std::string& uri) {
    return Tls(context_of(site, foreign_certificate(site, {{NID_subject_alt_name, "URI:" + uri}})));
  };
  EXPECT_EQ(meet(of("trainrun://a/launcher/ada"), of("trainrun://a/node/node-b")),
            (Pair{"ok", "ok"}));
  EXPECT_EQ(meet(of("trainrun://b/launcher/ada"), of("trainrun://a/node/node-b")).first,
            "unauthenticated: LISTENER: its certificate names trainrun://a/node/node-b, but a node "
            "of cluster 'b' is required");
  EXPECT_EQ(meet(of("trainrun://b/launcher/ada"), of("trainrun://a/node/node-b")).second,
            "unauthenticated: CONNECTOR: its certificate names trainrun://b/launcher/ada, but a "
            "launcher of cluster 'a' is required");
}

TEST_F(CertificateHandshake, ANodeSpeaksForNoOther) {
  const auto [connector, listener] = meet(launcher(), node("node-c"));
  EXPECT_EQ(
      connector,
      "unauthenticated: LISTENER calls itself node-b, but its certificate is for node-c (start "
      "it with the --node-name of its certificate)");
}

// Use OpenSSL alone: our context does not load expired certificates, and uses today's clock.
TEST_F(CertificateHandshake, AnExpiredCertificateIsRefusedWithTheReason) {
  const std::time_t now = std::time(nullptr);
  const PemPair late = certificate_of(lab_, kLauncher, "ada", {now - 3 * kTestDay, now - kTestDay});
  const auto certificate = certificate_in(late.certificate);
  const auto key = key_in(late.key);
  const Openssl<SSL_CTX> foreign(SSL_CTX_new(TLS_method()));
  SSL_CTX_use_certificate(foreign.get(), certificate.get());
  SSL_CTX_use_PrivateKey(foreign.get(), key.get());

  EXPECT_EQ(start_tls_with(foreign.get(), node(), ConnectionSide::Listener),
            "PEER: its certificate has expired (issue a new one with `traind certs`, or correct "
            "the clocks)");
}

TEST_F(CertificateHandshake, WhoseCertificateHasExpiredElsewhereHearsIt) {
  const PemPair own = certificate_of(lab_, kNode, "node-b");
  const auto certificate = certificate_in(own.certificate);
  const auto key = key_in(own.key);
  const auto authority = certificate_in(lab_.certificate);
  const Openssl<SSL_CTX> foreign(SSL_CTX_new(TLS_method()));
  SSL_CTX_use_certificate(foreign.get(), certificate.get());
  SSL_CTX_use_PrivateKey(foreign.get(), key.get());
  X509_STORE_add_cert(SSL_CTX_get_cert_store(foreign.get()), authority.get());
  SSL_CTX_set_verify(foreign.get(), SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(foreign.get()),
                             std::time(nullptr) + 50 * kTestDay);  // its clock

  EXPECT_EQ(start_tls_with(foreign.get(), launcher(), ConnectionSide::Connector),
            "PEER says that our certificate has expired (issue a new one with `traind certs`, or "
            "correct the clocks)");
}

// A site's certificates come with intermediate ones, and have longer keys.
TEST_F(CertificateHandshake, AChainOfRsaKeysFits) {
  const std::pair<int, std::string> is_authority{NID_basic_constraints, "critical,CA:TRUE"};
  const PemPair root = foreign_certificate(lab_, {is_authority}, EVP_RSA_gen(3072), true);
  const PemPair between = foreign_certificate(root, {is_authority}, EVP_RSA_gen(3072));
  const auto leaf = [&](const std::string& uri) {
    PemPair made =
        foreign_certificate(between, {{NID_subject_alt_name, "URI:" + uri}}, EVP_RSA_gen(3072));
    made.certificate += between.certificate;
    return Tls(context_of(root, made));
  };
  EXPECT_EQ(meet(leaf("trainrun://lab/launcher/ada"), leaf("trainrun://lab/node/node-b")),
            (Pair{"ok", "ok"}));
}

// In a run of a year, a connection keeps the certificates with which it began.
TEST_F(CertificateHandshake, AConnectionOutlivesTheContextThatItBeganWith) {
  auto [a, b] = tcp_pair();
  Tls own = launcher();
  const Ends ends = shake(*a, *b, own, node());
  ASSERT_EQ(text(ends.connector) + text(ends.listener), "okok");
  own.reset();
  run([&, &a = a, &b = b]() -> asio::awaitable<void> {
    b->send({.type = MessageType::Heartbeat, .attempt = {}, .payload = "\x80"});
    auto there = co_await within(10s, a->receive());
    EXPECT_TRUE(there.has_value());
  });
}

}  // namespace
}  // namespace train
