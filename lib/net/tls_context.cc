#include "lib/net/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <string>

#include "lib/base/check.h"

namespace train {
namespace {

constexpr std::string_view kPskIdentity = "trainrun/2";
constexpr std::string_view kPskLabel = "trainrun 2 tls psk";
// A PSK is bound to one hash; these two ciphers use SHA-256.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kPskCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr const char* kGroups = "X25519:P-256";
// 4 KiB are enough for a PSK; a certificate may come with intermediate ones.
constexpr std::size_t kPskHandshakeBytesMax = 4096, kCertificateHandshakeBytesMax = 16384;

constexpr std::string_view kMakeOne = "make one with: traind certs";

void check_tls(bool worked) { TRAIN_CHECK(worked, "libssl cannot do TLS 1.3"); }

/// Return the PSK in OpenSSL's form. Each connection gets and owns a new one.
SSL_SESSION* make_psk_session(SSL* ssl) {
  const auto* impl =
      static_cast<const TlsContext::Impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  Openssl<SSL_SESSION> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kPskCipher);
  const auto* key = reinterpret_cast<const unsigned char*>(impl->psk.data());
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key, impl->psk.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

// OpenSSL calls this once for the first ClientHello, and again after a retry request, with the
// chosen hash.
int use_psk(SSL* ssl, const EVP_MD* md, const unsigned char** identity, std::size_t* identity_size,
            SSL_SESSION** session) {
  *session = nullptr;
  if (md != nullptr && EVP_MD_get_type(md) != NID_sha256) return 1;  // no PSK: the handshake fails
  *identity = reinterpret_cast<const unsigned char*>(kPskIdentity.data());
  *identity_size = kPskIdentity.size();
  *session = make_psk_session(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_psk(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
             SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view wanted(reinterpret_cast<const char*>(identity), identity_size);
  if (wanted != kPskIdentity) return 1;
  *session = make_psk_session(ssl);
  return *session != nullptr ? 1 : 0;
}

Openssl<SSL_CTX> make_context() {
  Openssl<SSL_CTX> made(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = made.get();
  check_tls(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
            SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
            SSL_CTX_set_ciphersuites(context, kCiphers) == 1 &&
            SSL_CTX_set1_groups_list(context, kGroups) == 1 &&
            SSL_CTX_set_num_tickets(context, 0) == 1 &&
            SSL_CTX_set_max_early_data(context, 0) == 1 &&
            SSL_CTX_set_recv_max_early_data(context, 0) == 1);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 1);  // a record in one recv() instead of two
  return made;
}

// ---- certificates

int no_password(char*, int, int, void*) { return 0; }  // never prompt at the terminal

Openssl<BIO> open_text(std::string_view text) {
  return Openssl<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::vector<Openssl<X509>> read_certificates(std::string_view text) {
  std::vector<Openssl<X509>> all;
  const Openssl<BIO> memory = open_text(text);
  while (X509* next = PEM_read_bio_X509(memory.get(), nullptr, no_password, nullptr))
    all.emplace_back(next);
  ERR_clear_error();  // the error that there are no more
  return all;
}

Error unusable(std::string_view file, std::string_view why, std::string_view hint) {
  ERR_clear_error();
  return Error{Errc::InvalidArgument, fmt::format("{} {}", file, why), std::string(hint)};
}

/// Check our own certificate as a peer would, so that its owner sees the error.
Result<Unit> check_own(X509_STORE* authorities, X509* certificate, STACK_OF(X509) * between,
                       CertificateRole role) {
  const Openssl<X509_STORE_CTX> check(X509_STORE_CTX_new());
  check_tls(check != nullptr &&
            X509_STORE_CTX_init(check.get(), authorities, certificate, between) == 1 &&
            X509_STORE_CTX_set_purpose(check.get(), role == CertificateRole::Node
                                                        ? X509_PURPOSE_SSL_SERVER
                                                        : X509_PURPOSE_SSL_CLIENT) == 1);
  if (X509_verify_cert(check.get()) == 1) return Unit{};
  const Error why = certificate_error(X509_STORE_CTX_get_error(check.get()));
  return unusable("tls.crt", why.message, why.hint);
}

}  // namespace

TlsContext TlsContext::from_token(const Token& token) {
  auto impl = std::make_shared<Impl>();
  impl->psk = hmac_sha256(token.bytes(), kPskLabel);
  impl->handshake_bytes_max = kPskHandshakeBytesMax;
  impl->context = make_context();
  SSL_CTX* context = impl->context.get();
  // With SSL_VERIFY_NONE, a side with a PSK would accept any certificate instead. Since the trust
  // store is empty, this accepts none.
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_app_data(context, impl.get());
  SSL_CTX_set_psk_use_session_callback(context, use_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
  return TlsContext(std::move(impl));
}

Result<TlsContext> TlsContext::from_certificates(const CertificateTexts& texts) {
  const auto authorities = read_certificates(texts.authorities);
  auto chain = read_certificates(texts.certificate);
  const Openssl<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(open_text(texts.key).get(), nullptr, no_password, nullptr));
  if (authorities.empty()) return unusable("ca.crt", "holds no certificate in PEM", kMakeOne);
  if (chain.empty()) return unusable("tls.crt", "holds no certificate in PEM", kMakeOne);
  if (key == nullptr)
    return unusable("tls.key", "holds no private key in PEM that is readable without a password",
                    kMakeOne);
  auto impl = std::make_shared<Impl>();
  impl->handshake_bytes_max = kCertificateHandshakeBytesMax;
  impl->context = make_context();
  SSL_CTX* context = impl->context.get();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  for (const auto& authority : authorities)
    check_tls(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1);
  X509* own = chain.front().get();
  if (SSL_CTX_use_certificate(context, own) != 1)
    return unusable("tls.crt", "holds a key that TLS 1.3 cannot use", kMakeOne);
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return unusable("tls.key", "is not the key of tls.crt",
                    "both files must come from the same `traind certs` call");
  for (std::size_t i = 1; i < chain.size(); ++i)
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1)
      return unusable("tls.crt",
                      "holds an intermediate certificate whose key or signature is too weak",
                      "issue it with a key of at least 2048 bits (RSA) and SHA-256");
  impl->name = name_in(own);
  if (!impl->name)
    return unusable("tls.crt",
                    "names no node or launcher: it needs one URI, trainrun://CLUSTER/node/NAME or "
                    "trainrun://CLUSTER/launcher/USER",
                    kMakeOne);
  STACK_OF(X509)* between = nullptr;
  SSL_CTX_get0_chain_certs(context, &between);
  TRY_VOID(check_own(SSL_CTX_get_cert_store(context), own, between, impl->name->role));
  impl->valid_until = end_of_validity(own).value_or(0);
  return TlsContext(std::move(impl));
}

const std::optional<CertificateName>& TlsContext::name() const { return impl_->name; }
std::time_t TlsContext::valid_until() const { return impl_->valid_until; }

Error certificate_error(long x509_error) {
  constexpr std::string_view kSameAuthority = "both sides need certificates of one authority";
  const auto unauthenticated = [](std::string_view what, std::string_view hint) {
    return Error{Errc::Unauthenticated, std::string(what), std::string(hint)};
  };
  switch (x509_error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return unauthenticated("has expired",
                             "issue a new one with `traind certs`, or correct the clocks");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return unauthenticated("is not valid yet", "compare the clocks of both machines");
    case X509_V_ERR_INVALID_PURPOSE:
      return unauthenticated("was not issued for this side of a connection",
                             "nodes need the usage serverAuth, launchers clientAuth");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return unauthenticated("is not signed by an authority in ca.crt", kSameAuthority);
    default:
      return unauthenticated(
          fmt::format("is refused: {}", X509_verify_cert_error_string(x509_error)), "");
  }
}

}  // namespace train
