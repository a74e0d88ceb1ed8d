// A Listener accepts connections on one endpoint, exactly the one that was asked for.
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
  /// when missing, and refused when it belongs to somebody else or is open to others. A file left
  /// by a dead process is replaced; a live listener is Errc::AlreadyExists.
  static Result<std::unique_ptr<Listener>> listen(asio::any_io_executor executor,
                                                  const Endpoint& endpoint);

  /// Listen on a Unix socket that bind_unix_socket() made, perhaps in another process. The kernel
  /// names this process to whoever connects (SO_PEERCRED). close() leaves the socket's file.
  static Result<std::unique_ptr<Listener>> listen(asio::any_io_executor executor,
                                                  FileDescriptor bound);

  explicit Listener(std::shared_ptr<Impl> impl);
  ~Listener();  // closes
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Accept the next connection. Temporary trouble does not end it: a peer that has left again, or
  /// a full table of file descriptors (peers that wait are then turned away). Errc::Unavailable
  /// after close().
  Task<std::unique_ptr<Connection>> accept();

  Endpoint local_endpoint() const;  // with the port that was picked
  void close();  // removes the file of a Unix socket that it bound itself; may be called again

 private:
  std::shared_ptr<Impl> impl_;  // shared with accept(), which close() may end after the Listener
};

/// Bind a Unix socket as Listener::listen() does, without listening yet.
Result<FileDescriptor> bind_unix_socket(asio::any_io_executor executor, const std::string& path);

}  // namespace train
