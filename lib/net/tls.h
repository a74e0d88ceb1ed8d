// TLS 1.3 between machines, by OpenSSL on the socket itself. PROTOCOL.md, "TLS", has what is
// agreed. Nothing here waits: Connection does.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "lib/base/error.h"
#include "lib/net/io_step.h"
#include "lib/net/token.h"

namespace train {

/// Which end of a connection this is.
enum class ConnectionSide { Connector, Listener };

/// What this process shows its peers and demands of them: made once, for all its connections.
class TlsContext {
 public:
  struct Impl;

  /// Each side proves to the other that it holds the token (external PSK with a fresh
  /// Diffie-Hellman: whoever learns the token later cannot read what was sent before).
  static TlsContext from_token(const Token& token);

 private:
  friend class TlsStream;
  explicit TlsContext(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// One connection's TLS over a non-blocking socket, which it does not close. After Ended, Failed or
/// Refused it is of no use.
class TlsStream {
 public:
  TlsStream(const TlsContext& context, ConnectionSide side, int fd);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Moved: both sides have proved who they are. Reads no more than kHandshakeBytesMax until then.
  IoStep handshake();
  /// Until it needs to wait: the socket does not say what is buffered here.
  IoStep read(char* out, std::size_t size);
  IoStep write(const char* bytes, std::size_t size);
  /// Tell the peer that nothing more comes, where it can be told without waiting.
  void close();
  /// Why the last step was Refused.
  Error error(std::string_view peer) const;

  static constexpr std::size_t kHandshakeBytesMax = 4096;

 private:
  struct State;
  IoStep outcome(int result);
  std::unique_ptr<State> state_;
};

/// Whether these first three bytes of a stream begin a TLS record (of a handshake). No frame of
/// ours does: its length would not be allowed there.
bool begins_tls(std::string_view first_bytes);

}  // namespace train
