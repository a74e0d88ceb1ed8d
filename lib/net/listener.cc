#include "lib/net/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <optional>

#include "lib/base/file_descriptor.h"
#include "lib/net/resolve.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr auto kFullTablePause = milliseconds(50);

struct FileId {  // lets close() remove our socket's file only, not one that replaced it
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

std::optional<FileId> file_id(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{.device = status.st_dev, .inode = status.st_ino};
}

// Open the socket's folder. Its mode must keep others out, since the socket file itself is open to
// all between bind and chmod.
Result<FileDescriptor> open_private_folder(const std::string& socket_path) {
  const std::string parent = std::filesystem::path(socket_path).parent_path().string();
  const std::string folder = parent.empty() ? std::string(1, '.') : parent;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, fmt::format("creating {}", folder));
  FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return system_error(errno, fmt::format("opening {}", folder));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    return system_error(errno, fmt::format("looking at {}", folder));
  if (status.st_uid != ::geteuid()) {
    return Error{Errc::Permission,
                 fmt::format("the socket's folder {} belongs to uid {}, but must belong to uid {}",
                             folder, status.st_uid, ::geteuid()),
                 "choose a folder of your own"};
  }
  if ((status.st_mode & 077) != 0) {
    return Error{
        Errc::Permission,
        fmt::format(
            "the socket's folder {} has mode {:04o}, which gives others access; 0700 is required",
            folder, status.st_mode & 07777),
        fmt::format("chmod 700 {}", folder)};
  }
  return fd;
}

Result<FileDescriptor> open_socket(const StreamAddress& address) {
  FileDescriptor fd(
      ::socket(address.data()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return system_error(errno, "opening a socket");
  return fd;
}

// Return whether a process listens behind the socket's file.
Result<bool> somebody_answers(const StreamAddress& address) {
  TRY(const FileDescriptor probe, open_socket(address));
  if (::connect(probe.get(), address.data(), static_cast<socklen_t>(address.size())) == 0)
    return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

Result<Unit> bind_to(const FileDescriptor& fd, const StreamAddress& address,
                     const Endpoint& endpoint) {
  if (::bind(fd.get(), address.data(), static_cast<socklen_t>(address.size())) != 0) {
    const int error_number = errno;
    if (error_number == EADDRINUSE) {
      return Error{Errc::AlreadyExists,
                   fmt::format("listening on {}: another process is already listening there",
                               endpoint.text()),
                   "choose another address"};
    }
    return system_error(error_number, fmt::format("listening on {}", endpoint.text()));
  }
  if (endpoint.kind == Endpoint::Unix && ::chmod(endpoint.host_or_path.c_str(), 0600) != 0) {
    return system_error(errno, fmt::format("protecting {}", endpoint.host_or_path));
  }
  return Unit{};
}

Result<Unit> listen_at(const FileDescriptor& fd, const Endpoint& endpoint) {
  if (::listen(fd.get(), SOMAXCONN) != 0)
    return system_error(errno, fmt::format("listening on {}", endpoint.text()));
  return Unit{};
}

Result<FileDescriptor> bind_unix(const StreamAddress& address, const Endpoint& endpoint) {
  TRY(const FileDescriptor folder, open_private_folder(endpoint.host_or_path));
  // If two listeners start at the same time, neither may take the other's socket, bound but not
  // listening yet, for a dead one.
  if (::flock(folder.get(), LOCK_EX) != 0)
    return system_error(errno, fmt::format("locking the folder of {}", endpoint.host_or_path));
  struct stat status {};
  if (::lstat(endpoint.host_or_path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return Error{Errc::AlreadyExists,
                   fmt::format("{} exists and is not a socket", endpoint.host_or_path),
                   "choose another path, or remove it"};
    }
    TRY(const bool alive, somebody_answers(address));
    if (alive)
      return Error{Errc::AlreadyExists,
                   fmt::format("listening on {}: another process is already listening there",
                               endpoint.text()),
                   "choose another path"};
    if (::unlink(endpoint.host_or_path.c_str()) != 0)
      return system_error(errno, fmt::format("removing the stale {}", endpoint.host_or_path));
  }
  TRY(FileDescriptor fd, open_socket(address));
  TRY_VOID(bind_to(fd, address, endpoint));
  return fd;
}

Result<FileDescriptor> bind_tcp(const StreamAddress& address, const Endpoint& endpoint) {
  TRY(FileDescriptor fd, open_socket(address));
  const int on = 1, off = 0;
  // Lets a restarted daemon take its port again immediately.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.data()->sa_family == AF_INET6) {
    const int only = endpoint.host_or_path.empty() ? off : on;  // exactly what was requested
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  TRY_VOID(bind_to(fd, address, endpoint));
  return fd;
}

Result<FileDescriptor> bind_and_listen(const StreamAddress& address, const Endpoint& endpoint) {
  TRY(FileDescriptor fd,
      endpoint.kind == Endpoint::Unix ? bind_unix(address, endpoint) : bind_tcp(address, endpoint));
  TRY_VOID(listen_at(fd, endpoint));
  return fd;
}

bool is_full_table(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

// Return whether this is an error of the waiting connection; on Linux, accept() returns such
// errors.
bool is_gone_peer(int error_number) {
  switch (error_number) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Listener::Impl {
  Impl(const asio::any_io_executor& ex, FileDescriptor fd)
      : executor(ex), socket(ex, fd.release()) {}

  // Turn waiting peers away when no descriptor is left. Uses the reserved descriptor to accept and
  // close them, so that they notice immediately.
  void turn_away() {
    reserve.reset();
    for (;;) {
      const FileDescriptor refused(
          ::accept4(socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
      if (refused.get() < 0 && errno != EINTR && errno != ECONNABORTED) break;
    }
    open_reserve();
  }

  void open_reserve() { reserve.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  asio::any_io_executor executor;
  asio::posix::stream_descriptor socket;
  FileDescriptor reserve;
  Endpoint endpoint;
  std::optional<FileId> socket_file;
  bool closed = false;
};

Result<std::unique_ptr<Listener>> Listener::listen(asio::any_io_executor executor,
                                                   const Endpoint& endpoint) {
  TRY(const auto addresses, resolve_to_listen(executor, endpoint));
  std::optional<Error> first_error;
  for (const StreamAddress& address : addresses) {
    auto fd = bind_and_listen(address, endpoint);
    if (fd.has_error()) {
      if (!first_error) first_error = std::move(fd).error();
      continue;
    }
    auto impl = std::make_shared<Impl>(executor, std::move(*fd));
    impl->endpoint = endpoint;
    if (endpoint.kind == Endpoint::Unix) {
      impl->socket_file = file_id(endpoint.host_or_path);
    } else {
      StreamAddress local;
      socklen_t size = static_cast<socklen_t>(local.capacity());
      if (::getsockname(impl->socket.native_handle(), local.data(), &size) != 0)
        return system_error(errno, "asking for the port that was picked");
      local.resize(size);
      impl->endpoint = to_endpoint(local);
    }
    impl->open_reserve();
    return std::make_unique<Listener>(std::move(impl));
  }
  return std::move(*first_error);
}

Result<std::unique_ptr<Listener>> Listener::listen(asio::any_io_executor executor,
                                                   FileDescriptor bound) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(bound.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return system_error(errno, "asking where a socket is bound");
  address.sun_path[sizeof address.sun_path - 1] = '\0';
  const Endpoint endpoint = Endpoint::unix_socket(address.sun_path);
  TRY_VOID(listen_at(bound, endpoint));
  auto impl = std::make_shared<Impl>(executor, std::move(bound));
  impl->endpoint = endpoint;
  impl->open_reserve();
  return std::make_unique<Listener>(std::move(impl));
}

Result<FileDescriptor> bind_unix_socket(asio::any_io_executor executor, const std::string& path) {
  const Endpoint endpoint = Endpoint::unix_socket(path);
  TRY(const auto addresses, resolve_to_listen(executor, endpoint));
  return bind_unix(addresses.front(), endpoint);
}

Listener::Listener(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() { close(); }

Task<std::unique_ptr<Connection>> Listener::accept() {
  const auto impl = impl_;
  for (;;) {
    if (impl->closed)
      co_return Error{Errc::Unavailable,
                      fmt::format("no longer listening on {}", impl->endpoint.text())};
    const int fd =
        ::accept4(impl->socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int error_number = errno;
    if (fd >= 0) {
      auto connection = Connection::adopt(impl->executor, fd);
      if (connection.has_value()) co_return std::move(connection);
    } else if (error_number == EAGAIN) {
      auto [error] = co_await impl->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                                      asio::as_tuple(asio::use_awaitable));
      if (error && !impl->closed) co_return detail::cancelled_error();
    } else if (is_full_table(error_number)) {
      impl->turn_away();
      CO_TRY_VOID(co_await pause_for(kFullTablePause));
    } else if (!is_gone_peer(error_number)) {
      co_return system_error(error_number, fmt::format("accepting on {}", impl->endpoint.text()));
    }
  }
}

Endpoint Listener::local_endpoint() const { return impl_->endpoint; }

void Listener::close() {
  if (impl_->closed) return;
  impl_->closed = true;
  if (impl_->socket_file && file_id(impl_->endpoint.host_or_path) == impl_->socket_file)
    ::unlink(impl_->endpoint.host_or_path.c_str());
  boost::system::error_code ignored;  // it is closed in any case
  impl_->socket.close(ignored);
}

}  // namespace train
