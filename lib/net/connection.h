// One framed stream over TCP or a Unix socket. For one thread: the executor's.
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

  /// Connect within `timeout`: resolves the name and tries all its addresses in turn.
  static Task<std::unique_ptr<Connection>> connect(asio::any_io_executor executor,
                                                   Endpoint endpoint, Duration timeout);
  /// Take over a connected stream socket; closes it in the end.
  static Result<std::unique_ptr<Connection>> adopt(asio::any_io_executor executor, int fd);

  explicit Connection(std::shared_ptr<Impl> impl);
  ~Connection();  // closes
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The next frame. Errc::Unavailable when the peer closed or was reset, Errc::Protocol when its
  /// bytes are wrong; both last. One receive() at a time. Cancelling it loses no bytes.
  Task<Frame> receive();

  /// Queue a frame; frames leave in order, as many as are queued in one write. Never waits. On a
  /// connection that is closed or broken the frame is dropped: receive(), flush() and
  /// wait_queue_below() say so.
  void send(const Frame& frame);
  std::size_t queued_bytes() const;
  /// Back-pressure: wait until fewer than `bytes` are queued.
  Task<Unit> wait_queue_below(std::size_t bytes);
  /// Wait until everything queued is handed to the kernel.
  Task<Unit> flush();

  /// Close now; what is still queued is dropped. Wakes everybody who waits here. May be called
  /// again.
  void close();
  bool is_open() const;

  /// Whether the peer begins with TLS. Waits for its first bytes, which start_tls() or receive()
  /// get.
  Task<bool> peer_begins_tls();
  /// Go on in TLS: all that is sent and received from here on. Before the first frame only. A peer
  /// that fails is told so by TLS, and the connection is closed.
  Task<Unit> start_tls(const TlsContext& context, ConnectionSide side);
  /// Bytes that only this connection's two ends have; none on a Unix socket, where the kernel knows
  /// who is there, and without TLS.
  std::string binding() const;
  /// Whom the peer's certificate names: after start_tls(), with certificates only.
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
