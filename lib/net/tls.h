// TLS 1.3 between machines, with OpenSSL directly on the socket. PROTOCOL.md, "TLS", describes what
// the two sides agree on. Nothing here waits; Connection does.
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
  std::string_view authorities;  // ca.crt: the trusted authorities, one or more
  std::string_view certificate;  // tls.crt: ours first, then any intermediate ones
  std::string_view key;          // tls.key: unencrypted
};

/// What this process presents to its peers and demands of them. One context serves all connections.
class TlsContext {
 public:
  struct Impl;

  /// Make a context with which each side proves to the other that it holds the token (external PSK
  /// with fresh Diffie-Hellman, so that a token that leaks later does not reveal earlier traffic).
  static TlsContext from_token(const Token& token);
  /// Make a context with which each side presents a certificate that is signed by an authority that
  /// the other side trusts. TLS checks signatures and times; our own handshake checks whom a
  /// certificate names (handshake.h). InvalidArgument tells which of the three texts cannot be
  /// used, and why.
  static Result<TlsContext> from_certificates(const CertificateTexts& texts);

  /// Return whom our certificate names, and when it expires; nothing (and 0) with a token.
  const std::optional<CertificateName>& name() const;
  std::time_t valid_until() const;

  /// Return what a peer must present, and the flag for it: "token" and "--token-file".
  std::string_view proof() const { return name() ? "certificate" : "token"; }
  std::string_view flag() const { return name() ? "--tls" : "--token-file"; }

 private:
  friend class TlsStream;
  explicit TlsContext(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// TLS of one connection over a non-blocking socket, which it does not close. It cannot be used
/// after Ended, Failed or Refused.
class TlsStream {
 public:
  /// `first_bytes`: the peer's bytes that were already taken from the socket.
  TlsStream(const TlsContext& context, ConnectionSide side, int fd, std::string first_bytes = {});
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Do the next step of the handshake. Moved: the peer has proved who it is. Until then this reads
  /// no more than a handshake needs. A connector learns only from read() whether the listener
  /// accepts its certificate.
  IoStep handshake();
  /// Read some bytes. Call this until it needs to wait, since the socket does not show what is
  /// buffered here.
  IoStep read(char* out, std::size_t size);
  IoStep write(const char* bytes, std::size_t size);
  /// Tell the peer that nothing more follows, if that is possible without waiting.
  void close();
  /// Return why the last step was Refused.
  Error error(std::string_view peer) const;
  /// Return 32 bytes that only the two ends of this connection know. Only after the handshake.
  std::string binding() const;
  /// Return whom the peer's certificate names; nothing with a token, or if it has no name of ours.
  std::optional<CertificateName> peer_name() const;

 private:
  struct State;
  IoStep outcome(int result);
  std::unique_ptr<State> state_;
};

/// Return whether a stream with these first bytes begins with a TLS handshake record. Our frames
/// never do, since their length would not be allowed.
bool begins_tls(std::string_view first_bytes);

}  // namespace train
