#include "lib/net/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string>

#include "lib/base/check.h"
#include "lib/net/hmac.h"
#include "lib/net/tls_bio.h"

namespace train {
namespace {

constexpr std::string_view kPskIdentity = "trainrun/2";
constexpr std::string_view kPskLabel = "trainrun 2 tls psk";
// A PSK belongs to one hash: SHA-256 has these two.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kPskCipher[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr const char* kGroups = "X25519:P-256";
// A listener that looks at certificates must name its sessions; a connector must not.
constexpr unsigned char kSessionContext[] = {'t', 'r', 'a', 'i', 'n'};

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

void check_tls(bool worked) { TRAIN_CHECK(worked, "libssl cannot do TLS 1.3 with a PSK"); }

}  // namespace

struct TlsContext::Impl {
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { wipe(psk.data(), psk.size()); }

  std::unique_ptr<SSL_CTX, Free> context;
  std::array<char, kHmacBytes> psk{};
};

namespace {

/// The PSK as OpenSSL wants it; a new one for each connection, which keeps it.
SSL_SESSION* make_psk_session(SSL* ssl) {
  const auto* impl =
      static_cast<const TlsContext::Impl*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  std::unique_ptr<SSL_SESSION, Free> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kPskCipher);
  const auto* key = reinterpret_cast<const unsigned char*>(impl->psk.data());
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key, impl->psk.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

// Called once for the first ClientHello, and again, with the hash that was chosen, after a retry.
int use_psk(SSL* ssl, const EVP_MD* md, const unsigned char** identity, std::size_t* identity_size,
            SSL_SESSION** session) {
  *session = nullptr;
  if (md != nullptr && EVP_MD_get_type(md) != NID_sha256) return 1;  // without a PSK: it will fail
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

std::unique_ptr<SSL_CTX, Free> make_context() {
  std::unique_ptr<SSL_CTX, Free> made(SSL_CTX_new(TLS_method()));
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
  // With SSL_VERIFY_NONE a side with a PSK would take any certificate in its place. The trust store
  // is empty, so none is ever good enough.
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return made;
}

}  // namespace

TlsContext TlsContext::from_token(const Token& token) {
  auto impl = std::make_shared<Impl>();
  impl->psk = hmac_sha256(token.bytes(), kPskLabel);
  impl->context = make_context();
  SSL_CTX_set_app_data(impl->context.get(), impl.get());
  SSL_CTX_set_psk_use_session_callback(impl->context.get(), use_psk);
  SSL_CTX_set_psk_find_session_callback(impl->context.get(), find_psk);
  return TlsContext(std::move(impl));
}

struct TlsStream::State {
  std::shared_ptr<const TlsContext::Impl> context;  // whose PSK the callbacks read
  TlsSocket socket;
  std::unique_ptr<SSL, Free> ssl;
  ConnectionSide side = ConnectionSide::Connector;
  bool established = false, over = false;
  unsigned long error = 0;  // of OpenSSL: why the peer was refused
};

TlsStream::TlsStream(const TlsContext& context, ConnectionSide side, int fd)
    : state_(std::make_unique<State>()) {
  state_->context = context.impl_;
  state_->side = side;
  state_->socket.fd = fd;
  state_->socket.bytes_allowed = kHandshakeBytesMax;
  state_->ssl.reset(SSL_new(context.impl_->context.get()));
  check_tls(state_->ssl != nullptr);
  BIO* bio = make_socket_bio(state_->socket);
  SSL_set_bio(state_->ssl.get(), bio, bio);
  if (side == ConnectionSide::Connector) {
    SSL_set_connect_state(state_->ssl.get());
  } else {
    SSL_set_accept_state(state_->ssl.get());
    check_tls(SSL_set_session_id_context(state_->ssl.get(), kSessionContext,
                                         sizeof kSessionContext) == 1);
  }
}

TlsStream::~TlsStream() = default;

IoStep TlsStream::outcome(int result) {
  State& state = *state_;
  const int what = SSL_get_error(state.ssl.get(), result);
  if (what == SSL_ERROR_WANT_READ) return {.kind = IoStep::NeedsRead};
  if (what == SSL_ERROR_WANT_WRITE) return {.kind = IoStep::NeedsWrite};
  state.over = true;
  if (what == SSL_ERROR_ZERO_RETURN || state.socket.ended) return {.kind = IoStep::Ended};
  if (state.socket.error_number != 0)
    return {.kind = IoStep::Failed, .error_number = state.socket.error_number};
  state.error = ERR_peek_error();
  return {.kind = IoStep::Refused};
}

IoStep TlsStream::handshake() {
  State& state = *state_;
  ERR_clear_error();
  const int result = SSL_do_handshake(state.ssl.get());
  if (result != 1) return outcome(result);
  if (SSL_session_reused(state.ssl.get()) != 1) {  // by something else than our PSK
    state.over = true;
    state.error = ERR_PACK(ERR_LIB_SSL, 0, SSL_R_CERTIFICATE_VERIFY_FAILED);
    return {.kind = IoStep::Refused};
  }
  state.established = true;
  state.socket.bytes_allowed = kAnyNumberOfBytes;
  return {};
}

IoStep TlsStream::read(char* out, std::size_t size) {
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_read_ex(state_->ssl.get(), out, size, &count);
  if (result == 1) return {.bytes = count};
  return outcome(result);
}

IoStep TlsStream::write(const char* bytes, std::size_t size) {
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_write_ex(state_->ssl.get(), bytes, size, &count);
  if (result == 1) return {.bytes = count};
  return outcome(result);
}

void TlsStream::close() {
  if (!state_->established || std::exchange(state_->over, true)) return;
  ERR_clear_error();
  SSL_shutdown(state_->ssl.get());
}

Error TlsStream::error(std::string_view peer) const {
  const bool connector = state_->side == ConnectionSide::Connector;
  const int reason = ERR_GET_REASON(state_->error);
  const auto unauthenticated = [&](std::string_view what, std::string_view hint) {
    return Error{Errc::Unauthenticated, fmt::format("{}{}", peer, what), std::string(hint)};
  };
  switch (reason) {
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
      if (!connector) break;
      [[fallthrough]];
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return unauthenticated(": token does not match", "both sides need the same token file");
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return unauthenticated(" asks for a token", "pass --token-file");
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return unauthenticated(" shows a certificate, and a token is asked for here",
                             "start it with --token-file");
    case SSL_R_WRONG_VERSION_NUMBER:
      if (connector) return unauthenticated(" speaks no TLS", "start it with --token-file");
      break;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return Error{Errc::Protocol, fmt::format("{} does not speak TLS 1.3", peer),
                   "install the same version of trainrun on both machines"};
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_BAD_RECORD_TYPE:
      return Error{Errc::Protocol,
                   fmt::format("{}: a TLS record was changed, repeated or moved on its way", peer)};
    default:
      break;
  }
  if (!state_->established && !connector) {
    if (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER)
      return unauthenticated(" shows no token, and one is asked for here", "");
  }
  const char* text = ERR_reason_error_string(state_->error);
  return Error{Errc::Protocol,
               fmt::format("{}: TLS: {}", peer, text != nullptr ? text : "no reason given")};
}

bool begins_tls(std::string_view first_bytes) {
  return first_bytes.size() >= 3 && first_bytes[0] == 0x16 && first_bytes[1] == 0x03 &&
         first_bytes[2] != 0;
}

}  // namespace train
