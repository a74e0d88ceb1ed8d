// Frames over a socket that blocks.
#pragma once

#include <mutex>
#include <optional>

#include "lib/base/file_descriptor.h"
#include "lib/wire/frame.h"

namespace train {

class FrameSocket {
 public:
  explicit FrameSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Wait for the next frame; nothing once the peer is gone or sends what is no frame. One thread.
  std::optional<Frame> receive();
  /// Send a frame. A peer that is gone loses it. Any thread.
  void send(const Frame& frame);

 private:
  const FileDescriptor socket_;
  FrameReader reader_;
  std::mutex sending_;
};

}  // namespace train
