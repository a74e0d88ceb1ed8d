// Frames and descriptors over a Unix socket between two processes of one user. Nothing here blocks.
#pragma once

#include <deque>
#include <span>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/data/serve/messages.h"

namespace train::data {

/// Listen at `path`, which nothing may have yet, in a folder that only this user may enter.
Result<FileDescriptor> listen_at(const std::string& path);
/// Accept one connection; an invalid descriptor if none waits. Permission if it is of another user.
Result<FileDescriptor> accept_peer(int listening);
/// Connect. Permission if a process of another user listens there.
Result<FileDescriptor> connect_to(const std::string& path);
/// Check with the kernel that the process at the other end belongs to this user, or to root.
Result<Unit> check_peer(int socket);

class UnixChannel {
 public:
  explicit UnixChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  /// Queue a frame, with a copy of `descriptor` if it is one. ResourceExhausted if it is too long.
  Result<Unit> queue(std::string frame, int descriptor = -1);
  bool has_queued() const { return !queue_.empty(); }
  /// Send what the socket takes.
  Result<Unit> flush();
  /// Read what is there, about a MiB at a time. Unavailable if the peer has closed the connection.
  Result<Unit> fill();
  /// Return the next whole frame that was read; false if there is none.
  Result<bool> next(ServeFrame& frame) { return frames_.next(frame); }
  /// Return the descriptor that came first, of those that nobody has taken.
  Result<FileDescriptor> take_descriptor();

 private:
  struct Queued {
    std::string bytes;
    std::size_t sent = 0;
    FileDescriptor descriptor;
  };
  Result<std::size_t> receive(std::span<char> to);

  FileDescriptor socket_;
  std::deque<Queued> queue_;
  ServeFrames frames_;
  std::deque<FileDescriptor> descriptors_;
};

}  // namespace train::data
