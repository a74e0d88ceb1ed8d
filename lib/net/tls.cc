#include "lib/net/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <cerrno>

#include "lib/base/check.h"
#include "lib/net/tls_bio.h"
#include "lib/net/tls_context.h"

namespace train {

namespace {

// A listener that verifies certificates must set a session id context; a connector must not.
constexpr unsigned char kSessionContext[] = {'t', 'r', 'a', 'i', 'n'};

constexpr const char* kIsItOne = "is that a traind?";

void check_tls(bool worked) { TRAIN_CHECK(worked, "libssl cannot make a TLS connection"); }

}  // namespace

struct TlsStream::State {
  std::shared_ptr<const TlsContext::Impl> context;  // the callbacks read its PSK
  TlsSocket socket;
  Openssl<SSL> ssl;
  ConnectionSide side = ConnectionSide::Connector;
  bool established = false, over = false;
  unsigned long error = 0;  // OpenSSL's reason for refusing the peer
};

TlsStream::TlsStream(const TlsContext& context, ConnectionSide side, int fd,
                     std::string first_bytes)
    : state_(std::make_unique<State>()) {
  state_->context = context.impl_;
  state_->side = side;
  state_->socket.fd = fd;
  state_->socket.first_bytes = std::move(first_bytes);
  state_->socket.bytes_allowed = context.impl_->handshake_bytes_max;
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
  if (state.socket.error_number == EMSGSIZE && !state.established) {
    state.error = ERR_PACK(ERR_LIB_SSL, 0, SSL_R_EXCESSIVE_MESSAGE_SIZE);
    return {.kind = IoStep::Refused};
  }
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
  const bool by_certificate = state.context->name.has_value();
  const bool proved = by_certificate ? SSL_get0_peer_certificate(state.ssl.get()) != nullptr &&
                                           SSL_get_verify_result(state.ssl.get()) == X509_V_OK
                                     : SSL_session_reused(state.ssl.get()) == 1;
  if (!proved) {  // OpenSSL should not have let it in
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

// RFC 8446, 7.5: exporters.
std::string TlsStream::binding() const {
  constexpr std::string_view kLabel = "EXPORTER-trainrun-binding";
  std::string bytes(32, '\0');
  check_tls(SSL_export_keying_material(state_->ssl.get(),
                                       reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                       kLabel.data(), kLabel.size(), nullptr, 0, 0) == 1);
  return bytes;
}

std::optional<CertificateName> TlsStream::peer_name() const {
  const X509* certificate = SSL_get0_peer_certificate(state_->ssl.get());
  if (!state_->context->name || certificate == nullptr) return std::nullopt;
  return name_in(certificate);
}

Error TlsStream::error(std::string_view peer) const {
  const bool connector = state_->side == ConnectionSide::Connector;
  const bool by_certificate = state_->context->name.has_value();
  const int reason = ERR_GET_REASON(state_->error);
  const std::string start_it =
      fmt::format("start it with {}", by_certificate ? "--tls" : "--token-file");
  const auto unauthenticated = [&](std::string_view what, std::string_view hint) {
    return Error{Errc::Unauthenticated, fmt::format("{}{}", peer, what), std::string(hint)};
  };
  switch (reason) {
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
      if (!connector || by_certificate) break;
      [[fallthrough]];
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return unauthenticated(": token does not match", "both sides need the same token file");
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (by_certificate) return unauthenticated(" asks for a token", "pass --token-file");
      return unauthenticated(" does not know our token", kIsItOne);
    case SSL_R_EXCESSIVE_MESSAGE_SIZE:
      return Error{Errc::Protocol, fmt::format("{} sends more than a handshake needs", peer),
                   connector ? kIsItOne : ""};
    case SSL_R_CERTIFICATE_VERIFY_FAILED: {
      if (!by_certificate)
        return unauthenticated(" presents a certificate, but a token is required here",
                               connector ? "pass --tls, or start it with --token-file" : "");
      const Error why = certificate_error(SSL_get_verify_result(state_->ssl.get()));
      return unauthenticated(fmt::format(": its certificate {}", why.message), why.hint);
    }
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return unauthenticated(" presents no certificate, but one is required here", "");
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return unauthenticated(" asks for a certificate", "pass --tls");
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return unauthenticated(" says that our certificate has expired",
                             "issue a new one with `traind certs`, or correct the clocks");
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return unauthenticated(" refuses our certificate",
                             "both sides need certificates of one authority, or the same token");
    case SSL_R_WRONG_VERSION_NUMBER:
      if (connector) return unauthenticated(" does not speak TLS", start_it);
      break;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return Error{Errc::Protocol, fmt::format("{} does not speak TLS 1.3 as trainrun does", peer),
                   "is that a traind, or a train-run, of the same version?"};
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_BAD_RECORD_TYPE:
      return Error{
          Errc::Protocol,
          fmt::format("{}: a TLS record was changed, repeated or reordered in transit", peer)};
    default:
      break;
  }
  if (!state_->established && !connector && !by_certificate) {
    if (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER)
      return unauthenticated(" presents no token, but one is required here", "");
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
