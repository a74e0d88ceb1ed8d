#include "lib/data/serve/unix_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace train::data {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kFillBytesMax = 1 << 20;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{Errc::InvalidArgument,
                 fmt::format("a Unix socket's path has 1 to {} bytes, and '{}' {}",
                             sizeof address.sun_path - 1, path, path.size())};
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Error broken(int error_number, std::string_view doing) {
  if (error_number == EPIPE || error_number == ECONNRESET)
    return Error{Errc::Unavailable, "the peer has closed the connection"};
  return system_error(error_number, doing);
}

Result<Unit> check_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  struct stat about {};
  if (folder.empty() || ::lstat(folder.c_str(), &about) != 0)
    return system_error(folder.empty() ? ENOENT : errno, "looking at the folder of " + path);
  if (S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0)
    return Unit{};
  return Error{Errc::Permission,
               fmt::format("{} may be entered by others (uid {}, mode {:o})", folder, about.st_uid,
                           about.st_mode & 07777),
               "ingest workers listen only in a folder of their own user, with mode 0700"};
}

}  // namespace

Result<Unit> check_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error(errno, "asking whose process a Unix socket leads to");
  if (peer.uid == ::geteuid() || peer.uid == 0) return Unit{};
  return Error{
      Errc::Permission,
      fmt::format("a process of uid {} is at the other end, not of uid {}", peer.uid, ::geteuid())};
}

Result<FileDescriptor> listen_at(const std::string& path) {
  const std::string doing = "listening at " + path;
  TRY(const sockaddr_un address, address_of(path));
  TRY_VOID(check_folder(path));
  FileDescriptor socket = new_socket();
  if (socket.get() < 0) return system_error(errno, doing);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return system_error(errno, doing);
  return socket;
}

Result<FileDescriptor> accept_peer(int listening) {
  FileDescriptor socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return FileDescriptor();
    return system_error(errno, "accepting a rank");
  }
  TRY_VOID(check_peer(socket.get()));
  return socket;
}

Result<FileDescriptor> connect_to(const std::string& path) {
  TRY(const sockaddr_un address, address_of(path));
  FileDescriptor socket = new_socket();
  int connected = -1;
  if (socket.get() >= 0) {
    do {
      connected =
          ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    } while (connected != 0 && errno == EINTR);
  }
  // EAGAIN: too many others wait to be accepted.
  if (connected != 0) return system_error(errno, "connecting to " + path);
  TRY_VOID(check_peer(socket.get()));
  return socket;
}

Result<Unit> UnixChannel::queue(std::string frame, int descriptor) {
  if (frame.size() > kServeFrameBytesMax)
    return Error{Errc::ResourceExhausted, fmt::format("a frame of {} bytes is longer than {}",
                                                      frame.size(), kServeFrameBytesMax)};
  FileDescriptor copy;
  if (descriptor >= 0) {
    copy.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (copy.get() < 0) return system_error(errno, "copying a descriptor");
  }
  queue_.push_back({.bytes = std::move(frame), .sent = 0, .descriptor = std::move(copy)});
  return Unit{};
}

Result<Unit> UnixChannel::flush() {
  while (!queue_.empty()) {
    Queued& next = queue_.front();
    iovec bytes{.iov_base = next.bytes.data() + next.sent,
                .iov_len = next.bytes.size() - next.sent};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (next.descriptor.get() >= 0) {  // it goes with the first byte
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      const int descriptor = next.descriptor.get();
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return Unit{};
      return broken(errno, "sending to a peer");
    }
    next.descriptor.reset();
    next.sent += static_cast<std::size_t>(sent);
    if (next.sent == next.bytes.size()) queue_.pop_front();
  }
  return Unit{};
}

/// Return how many bytes came; 0 if none wait.
Result<std::size_t> UnixChannel::receive(std::span<char> to) {
  iovec part{.iov_base = to.data(), .iov_len = to.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return std::size_t{0};
  if (got < 0) return broken(errno, "reading from a peer");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    descriptors_.emplace_back(descriptor);
  }
  if (got == 0) return Error{Errc::Unavailable, "the peer has closed the connection"};
  if (descriptors_.size() > kSlotsMax)
    return Error{Errc::Protocol, "the peer sends descriptors that belong to nothing"};
  return static_cast<std::size_t>(got);
}

Result<Unit> UnixChannel::fill() {
  std::array<char, kReadBytes> buffer;
  for (std::size_t filled = 0; filled < kFillBytesMax;) {
    TRY(const std::size_t got, receive(buffer));
    if (got == 0) break;
    frames_.feed({buffer.data(), got});
    filled += got;
  }
  return Unit{};
}

Result<FileDescriptor> UnixChannel::take_descriptor() {
  if (descriptors_.empty())
    return Error{Errc::Protocol, "a frame comes without the descriptor that belongs to it"};
  FileDescriptor taken = std::move(descriptors_.front());
  descriptors_.pop_front();
  return taken;
}

}  // namespace train::data
