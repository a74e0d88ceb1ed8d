// TLS 1.3 between machines, by OpenSSL directly on the socket. PROTOCOL.md, "TLS", has what the two
// sides agree on. Nothing here waits: Connection does.
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

/// What this process shows its peers and demands of them. It is made once, for all connections.
class TlsContext {
 public:
  struct Impl;

  /// Make a context by which each side proves to the other that it holds the token (external PSK
  /// with a fresh Diffie-Hellman: whoever learns the token later cannot read what was sent before).
  static TlsContext from_token(const Token& token);
  /// Make a context by which each side shows a certificate of its own, signed by an authority that
  /// the other side knows. TLS checks signatures and times; the handshake above it checks whom a
  /// certificate names (handshake.h). InvalidArgument says which of the three texts cannot be used,
  /// and why.
  static Result<TlsContext> from_certificates(const CertificateTexts& texts);

  /// Return whom our certificate names, and until when it is valid; nothing with a token.
  const std::optional<CertificateName>& name() const;
  std::time_t valid_until() const;

  /// Return what a peer must show, and the flag for it: "token" and "--token-file".
  std::string_view proof() const { return name() ? "certificate" : "token"; }
  std::string_view flag() const { return name() ? "--tls" : "--token-file"; }

 private:
  friend class TlsStream;
  explicit TlsContext(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// TLS of one connection over a non-blocking socket, which it does not close. After Ended, Failed
/// or Refused it cannot be used any more.
class TlsStream {
 public:
  /// `first_bytes`: bytes of the peer that were already taken from the socket.
  TlsStream(const TlsContext& context, ConnectionSide side, int fd, std::string first_bytes = {});
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Do the next step of the handshake. Moved: the peer has proved who it is. Until then it reads
  /// no more than a handshake needs. A connector learns only by read() whether the listener takes
  /// its certificate.
  IoStep handshake();
  /// Read some bytes. Call it until it needs to wait: the socket does not show what is buffered
  /// here.
  IoStep read(char* out, std::size_t size);
  IoStep write(const char* bytes, std::size_t size);
  /// Tell the peer that nothing more comes, if that is possible without waiting.
  void close();
  /// Return why the last step was Refused.
  Error error(std::string_view peer) const;
  /// Return 32 bytes that only the two ends of this connection know. Only after the handshake.
  std::string binding() const;
  /// Return whom the peer's certificate names; nothing with a token, or if it names nobody of
  /// trainrun.
  std::optional<CertificateName> peer_name() const;

 private:
  struct State;
  IoStep outcome(int result);
  std::unique_ptr<State> state_;
};

/// Return whether these first three bytes of a stream begin a TLS record (of a handshake). No frame
/// of ours begins so: its length would not be allowed.
bool begins_tls(std::string_view first_bytes);

}  // namespace train
