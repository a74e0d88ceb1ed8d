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

// The process at the other end of a Unix socket, according to the kernel.
struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

class Connection {
 public:
  struct Impl;

  /// Resolve the name and try its addresses in turn, all within `timeout`.
  static Task<std::unique_ptr<Connection>> connect(asio::any_io_executor executor,
                                                   Endpoint endpoint, Duration timeout);
  /// Take ownership of a connected stream socket. `received`: bytes that were read from it before.
  static Result<std::unique_ptr<Connection>> adopt(asio::any_io_executor executor, int fd,
                                                   std::string_view received = {});

  explicit Connection(std::shared_ptr<Impl> impl);
  ~Connection();  // closes
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Receive the next frame. Errc::Unavailable if the connection was closed or reset,
  /// Errc::Protocol if its bytes are wrong; both errors are permanent. Only one receive() may wait
  /// at a time. Cancelling it loses no bytes.
  Task<Frame> receive();

  /// Queue a frame. Never waits. Frames leave in order, and one write takes all that are queued. On
  /// a closed or broken connection the frame is dropped, which receive(), flush() and
  /// wait_queue_below() report.
  void send(const Frame& frame);
  /// Do the same with a descriptor, which the receiver gets with the frame's first byte. Only over
  /// a Unix socket, and only while nothing is queued. If the kernel does not take the descriptor,
  /// the frame goes without it. The caller keeps `descriptor`.
  void send_with_descriptor(const Frame& frame, int descriptor);
  std::size_t queued_bytes() const;
  /// Wait until fewer than `bytes` are queued (back-pressure).
  Task<Unit> wait_queue_below(std::size_t bytes);
  /// Wait until everything queued is handed to the kernel.
  Task<Unit> flush();

  /// Return what was read from the socket, and receive() has not returned. For another program that
  /// adopts the socket; nothing may be queued.
  std::string unread() const;
  int native_handle() const;

  /// Close now, and drop what is still queued. Wakes everybody who waits on this connection. May be
  /// called again.
  void close();
  bool is_open() const;

  /// Return whether the peer begins with TLS. Waits for its first bytes, which start_tls() or
  /// receive() still gets.
  Task<bool> peer_begins_tls();
  /// Switch to TLS for everything that is sent and received from now on. Call this only before the
  /// first frame. If the handshake fails, a TLS alert tells the peer, and the connection is closed.
  Task<Unit> start_tls(const TlsContext& context, ConnectionSide side);
  /// Return bytes that only this connection's two ends know. Empty without TLS, such as on a Unix
  /// socket, where the kernel knows who the peer is.
  std::string binding() const;
  /// Return whom the peer's certificate names. Nothing before start_tls() or without certificates.
  std::optional<CertificateName> certificate_name() const;
  /// Refuse payloads above `bytes` from now on.
  void set_payload_limit(std::size_t bytes);

  bool is_unix() const;               // the peer is on this machine, and the kernel knows who it is
  std::string peer() const;           // for logs: "10.0.0.7:41234", "unix:pid 4711"
  std::string local_address() const;  // this end's numeric address; "" for a Unix socket
  Result<PeerCredentials> credentials() const;  // Unix sockets only

 private:
  // Shared with a write that may end after the Connection.
  std::shared_ptr<Impl> impl_;
};

}  // namespace train
