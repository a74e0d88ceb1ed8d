#include "cmd/trainrun-pmix/frame_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace train {

std::optional<Frame> FrameSocket::receive() {
  std::array<char, 65536> buffer{};
  for (;;) {
    auto frame = reader_.next();
    if (frame.has_error()) return std::nullopt;
    if (*frame) return std::move(**frame);
    const ssize_t size = ::read(socket_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    reader_.feed({buffer.data(), static_cast<std::size_t>(size)});
  }
}

void FrameSocket::send(const Frame& frame) {
  std::string bytes;
  append_frame(frame, bytes);
  const std::lock_guard lock(sending_);
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t size = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace train
