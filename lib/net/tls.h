// TLS 1.3 between machines, by OpenSSL on the socket itself. PROTOCOL.md, "TLS", has what is
// agreed. Nothing here waits: Connection does.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/net/certificate.h"
#include "lib/net/io_step.h"
#include "lib/net/token.h"

namespace train {

/// Which end of a connection this is.
enum class ConnectionSide { Connector, Listener };

/// PEM texts, as the files of --tls hold them.
struct CertificateTexts {
  std::string_view authorities;  // ca.crt: whose signatures count; one or more
  std::string_view certificate;  // tls.crt: our own first, then those between it and the authority
  std::string_view key;          // tls.key: not encrypted
};

/// What this process shows its peers and demands of them: made once, for all its connections.
class TlsContext {
 public:
  struct Impl;

  /// Each side proves to the other that it holds the token (external PSK with a fresh
  /// Diffie-Hellman: whoever learns the token later cannot read what was sent before).
  static TlsContext from_token(const Token& token);
  /// Each side shows a certificate of its own that an authority which the other knows has signed.
  /// TLS checks signatures and times; whom a certificate names is checked by the handshake above
  /// (handshake.h). InvalidArgument says which of the three texts cannot be used, and why.
  static Result<TlsContext> from_certificates(const CertificateTexts& texts);

  /// Whom our certificate names, and until when; nothing with a token.
  const std::optional<CertificateName>& name() const;
  std::time_t valid_until() const;

  /// What a peer must show, and the flag for it: "token" and "--token-file".
  std::string_view proof() const { return name() ? "certificate" : "token"; }
  std::string_view flag() const { return name() ? "--tls" : "--token-file"; }

 private:
  friend class TlsStream;
  explicit TlsContext(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// One connection's TLS over a non-blocking socket, which it does not close. After Ended, Failed or
/// Refused it is of no use.
class TlsStream {
 public:
  /// `first_bytes`: of the peer, where some have been taken from the socket.
  TlsStream(const TlsContext& context, ConnectionSide side, int fd, std::string first_bytes = {});
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Moved: the peer has proved who it is. Reads no more than a handshake needs until then. A
  /// connector learns only by read() whether the listener takes its certificate.
  IoStep handshake();
  /// Until it needs to wait: the socket does not say what is buffered here.
  IoStep read(char* out, std::size_t size);
  IoStep write(const char* bytes, std::size_t size);
  /// Tell the peer that nothing more comes, where it can be told without waiting.
  void close();
  /// Why the last step was Refused.
  Error error(std::string_view peer) const;
  /// 32 bytes that only the two ends of this connection have: after the handshake.
  std::string binding() const;
  /// Whom the peer's certificate names; nothing with a token, or where it names nobody of trainrun.
  std::optional<CertificateName> peer_name() const;

 private:
  struct State;
  IoStep outcome(int result);
  std::unique_ptr<State> state_;
};

/// Whether these first three bytes of a stream begin a TLS record (of a handshake). No frame of
/// ours does: its length would not be allowed there.
bool begins_tls(std::string_view first_bytes);

}  // namespace train
