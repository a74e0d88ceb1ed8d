// A Listener accepts connections on one endpoint, exactly the requested one.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "lib/base/file_descriptor.h"
#include "lib/net/connection.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"

namespace train {

class Listener {
 public:
  struct Impl;

  /// Bind and listen. A Unix socket gets mode 0600 in a folder of mode 0700. The folder is created
  /// if missing, and refused if it belongs to somebody else or is open to others. Replaces a socket
  /// file left by a dead process. Errc::AlreadyExists if somebody listens there.
  static Result<std::unique_ptr<Listener>> listen(asio::any_io_executor executor,
                                                  const Endpoint& endpoint);

  /// Listen on a Unix socket that bind_unix_socket() made, perhaps in another process. To peers
  /// that connect, the kernel then names this process (SO_PEERCRED). close() leaves the socket's
  /// file.
  static Result<std::unique_ptr<Listener>> listen(asio::any_io_executor executor,
                                                  FileDescriptor bound);

  explicit Listener(std::shared_ptr<Impl> impl);
  ~Listener();  // closes
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Accept the next connection. Temporary trouble does not end the wait: a peer that has already
  /// left, or a full table of file descriptors (waiting peers are then turned away).
  /// Errc::Unavailable after close().
  Task<std::unique_ptr<Connection>> accept();

  Endpoint local_endpoint() const;  // with the port that the system picked
  /// Stop listening. Removes the file of a Unix socket that this Listener bound itself. May be
  /// called again.
  void close();

 private:
  std::shared_ptr<Impl> impl_;  // shared with an accept() that may end after the Listener
};

/// Bind a Unix socket as Listener::listen() does, without listening yet.
Result<FileDescriptor> bind_unix_socket(asio::any_io_executor executor, const std::string& path);

}  // namespace train
