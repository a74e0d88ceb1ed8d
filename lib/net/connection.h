// One framed stream over TCP or a Unix socket. Only the executor's thread may use it.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"
#include "lib/net/tls.h"
#include "lib/wire/frame.h"

namespace train {

struct PeerCredentials {  // of the process at the other end of a Unix socket, as the kernel says
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

class Connection {
 public:
  struct Impl;

  /// Resolve the name and try all its addresses in turn, within `timeout`.
  static Task<std::unique_ptr<Connection>> connect(asio::any_io_executor executor,
                                                   Endpoint endpoint, Duration timeout);
  /// Take over a connected stream socket, and close it in the end.
  static Result<std::unique_ptr<Connection>> adopt(asio::any_io_executor executor, int fd);

  explicit Connection(std::shared_ptr<Impl> impl);
  ~Connection();  // closes
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Receive the next frame. Errc::Unavailable when the peer closed or was reset, Errc::Protocol
  /// when its bytes are wrong; both errors are permanent. Only one receive() may wait at a time.
  /// Cancelling it loses no bytes.
  Task<Frame> receive();

  /// Queue a frame. Never waits. Frames leave in order, and one write takes all that are queued. On
  /// a connection that is closed or broken the frame is dropped; receive(), flush() and
  /// wait_queue_below() report this.
  void send(const Frame& frame);
  std::size_t queued_bytes() const;
  /// Wait until fewer than `bytes` are queued (back-pressure).
  Task<Unit> wait_queue_below(std::size_t bytes);
  /// Wait until everything queued is handed to the kernel.
  Task<Unit> flush();

  /// Close now, and drop what is still queued. Wakes everybody who waits here. May be called again.
  void close();
  bool is_open() const;

  /// Return whether the peer begins with TLS. Waits for its first bytes; start_tls() or receive()
  /// still get them.
  Task<bool> peer_begins_tls();
  /// Switch to TLS for all that is sent and received from here on. Call it before the first frame
  /// only. A peer that fails the handshake learns so by TLS, and the connection is closed.
  Task<Unit> start_tls(const TlsContext& context, ConnectionSide side);
  /// Return bytes that only this connection's two ends know. Empty without TLS, and on a Unix
  /// socket, where the kernel knows who the peer is.
  std::string binding() const;
  /// Return whom the peer's certificate names. Only after start_tls(), and only with certificates.
  std::optional<CertificateName> certificate_name() const;
  /// Refuse payloads above `bytes` from now on.
  void set_payload_limit(std::size_t bytes);

  bool is_unix() const;               // between processes of one machine, which knows who they are
  std::string peer() const;           // for logs: "10.0.0.7:41234", "unix:pid 4711"
  std::string local_address() const;  // numeric address of this end, "" for a Unix socket
  Result<PeerCredentials> credentials() const;  // Unix sockets only

 private:
  std::shared_ptr<Impl>
      impl_;  // shared with the write under way, which may end after the Connection
};

}  // namespace train
