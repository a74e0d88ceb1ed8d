// One framed stream over TCP or a Unix socket. For one thread: the executor's.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"
#include "lib/wire/frame.h"

namespace train {

struct PeerCredentials {  // of the process at the other end of a Unix socket, as the kernel says
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

/// Which end of a connection this is: MACs and proofs of the two directions never match each other.
enum class ConnectionSide { Connector, Listener };

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

  /// Put a MAC on every frame from here on and demand one on every frame that arrives from here on.
  /// The handshake calls it.
  void set_session_key(std::string_view key, ConnectionSide side);
  /// Refuse payloads above `bytes` from now on.
  void set_payload_limit(std::size_t bytes);

  std::string peer() const;                     // for logs: "10.0.0.7:41234", "unix:pid 4711"
  std::string local_address() const;            // numeric address of this end, "" for a Unix socket
  Result<PeerCredentials> credentials() const;  // Unix sockets only

 private:
  std::shared_ptr<Impl>
      impl_;  // shared with the write under way, which may end after the Connection
};

}  // namespace train
