#include "lib/net/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "lib/base/check.h"
#include "lib/net/resolve.h"
#include "lib/net/within.h"

namespace train {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kWriteBytes = 64u << 10;   // at a time; then others get their turn
constexpr std::size_t kKeptQueueBytesMax = 256;  // while nothing is queued

void set_int_option(int fd, int level, int name, int value) {
  // An error does not matter: a connection works without these options.
  ::setsockopt(fd, level, name, &value, sizeof value);
}

// Set the socket's options. Heartbeats detect a dead host; keepalive is for connections without
// heartbeats.
void set_options(int fd, bool is_unix) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (is_unix) return;
  set_int_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_int_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_int_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_int_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Result<PeerCredentials> read_credentials(int fd) {
  ucred found{};
  socklen_t size = sizeof found;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0)
    return system_error(errno, "asking who is at the other end");
  return PeerCredentials{.uid = found.uid, .gid = found.gid, .pid = found.pid};
}

/// Send some of the bytes, the first of them with the descriptor, without waiting. Return how many.
ssize_t send_some_with_descriptor(int fd, std::string& bytes, int descriptor) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  iovec data{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Error closed_by(const std::string& peer) {
  return Error{Errc::Unavailable, fmt::format("{} closed the connection", peer)};
}

Error broken(const std::string& peer, const error_code& error) {
  return Error{Errc::Unavailable, fmt::format("connection to {} broke: {}", peer, error.message())};
}

}  // namespace

struct Connection::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(Socket connected)
      : socket(std::move(connected)),
        drained(socket.get_executor(), asio::steady_timer::time_point::max()) {}

  std::size_t queued_bytes() const { return pending.size() + in_flight.size(); }

  // Start a write. Only one runs at a time; the next one sends the frames that are queued
  // meanwhile.
  void start_write() {
    in_flight.swap(pending);
    written = 0;
    write_on();
  }

  void write_on() {
    const std::size_t stop = std::min(in_flight.size(), written + kWriteBytes);
    IoStep step;
    while (written < stop && step.kind == IoStep::Moved) {
      const char* bytes = in_flight.data() + written;
      const std::size_t size = in_flight.size() - written;
      step = tls ? tls->write(bytes, size) : write_socket(socket.native_handle(), bytes, size);
      written += step.bytes;
    }
    if (step.kind == IoStep::NeedsRead || step.kind == IoStep::NeedsWrite) {
      socket.async_wait(direction(step), [self = shared_from_this()](const error_code&) {
        if (!self->closed) self->write_on();
      });
      return;
    }
    // Post to the executor, so that frames that are sent in the same turn leave together.
    asio::post(socket.get_executor(), [self = shared_from_this(), step] {
      if (self->closed) return;
      if (step.kind == IoStep::Moved && self->written < self->in_flight.size())
        self->write_on();
      else
        self->end_write(step);
    });
  }

  static Socket::wait_type direction(const IoStep& step) {
    return step.kind == IoStep::NeedsWrite ? Socket::wait_write : Socket::wait_read;
  }

  Error why(const IoStep& step) const {
    if (step.kind == IoStep::Ended) return closed_by(peer);
    if (step.kind == IoStep::Refused) return tls->error(peer);
    return broken(peer, error_code(step.error_number, boost::system::system_category()));
  }

  // Free the buffers of a connection that has nothing to send: there may be thousands of them.
  void give_back_buffers() {
    if (in_flight.capacity() > kKeptQueueBytesMax) std::string().swap(in_flight);
    if (pending.capacity() > kKeptQueueBytesMax) std::string().swap(pending);
  }

  void end_write(const IoStep& step) {
    in_flight.clear();
    if (step.kind != IoStep::Moved) {
      // Reading continues: the peer's last words, perhaps why it left, may still arrive.
      write_error = why(step);
      pending.clear();
    }
    if (!pending.empty()) start_write();
    if (in_flight.empty()) give_back_buffers();
    drained.cancel();
  }

  // Read what has arrived into a buffer that all connections of the thread share: a buffer for each
  // would be most of the memory that 10,000 connections need. The socket does not show what TLS has
  // already taken from it, so read from TLS until it has no more.
  void read() {
    static thread_local std::array<char, kReadBytes> buffer;
    std::size_t filled = 0;
    IoStep step;
    do {
      char* out = buffer.data() + filled;
      const std::size_t size = buffer.size() - filled;
      step = tls ? tls->read(out, size) : read_socket(socket.native_handle(), out, size);
      filled += step.bytes;
    } while (tls && step.kind == IoStep::Moved && filled < buffer.size());
    if (filled > 0) reader.feed({buffer.data(), filled});
    more_to_read = tls && step.kind == IoStep::Moved;
    read_direction = direction(step);
    if (step.kind == IoStep::Ended || step.kind == IoStep::Failed || step.kind == IoStep::Refused)
      last_read_error = why(step);
  }

  void close() {
    if (closed) return;
    closed = true;
    pending.clear();
    in_flight.clear();
    if (tls) tls->close();
    error_code ignored;  // the socket is closed in any case
    socket.shutdown(Socket::shutdown_both, ignored);
    socket.close(ignored);
    drained.cancel();
  }

  Socket socket;
  // Never expires. The end of each write cancels it, to wake those who wait.
  asio::steady_timer drained;
  std::string peer, local_address;
  bool is_unix = false;
  std::string first_tls_bytes;  // taken from the socket before TLS began
  std::optional<TlsStream> tls;
  FrameReader reader;
  std::string pending, in_flight;
  std::size_t written = 0;  // of in_flight
  Socket::wait_type read_direction = Socket::wait_read;
  bool more_to_read = false;  // more than one read() takes
  std::optional<Error> write_error, read_error;
  std::optional<Error> last_read_error;  // takes effect once all frames before it are taken
  bool receiving = false, closed = false;
};

namespace {

class ReceiveGuard {
 public:
  explicit ReceiveGuard(bool& receiving) : receiving_(receiving) {
    TRAIN_CHECK(!receiving_, "two receive() at a time on one connection");
    receiving_ = true;
  }
  ~ReceiveGuard() { receiving_ = false; }
  ReceiveGuard(const ReceiveGuard&) = delete;
  ReceiveGuard& operator=(const ReceiveGuard&) = delete;

 private:
  bool& receiving_;
};

Result<std::unique_ptr<Connection>> make_connection(Socket socket) {
  error_code error;
  socket.non_blocking(true, error);
  if (error) return system_error(error.value(), "setting up a socket");
  const StreamAddress remote = socket.remote_endpoint(error);
  if (error) return Error{Errc::Unavailable, fmt::format("the peer is gone: {}", error.message())};
  const StreamAddress local = socket.local_endpoint(error);
  if (error)
    return Error{Errc::Unavailable, fmt::format("the connection is gone: {}", error.message())};
  auto impl = std::make_shared<Connection::Impl>(std::move(socket));
  impl->is_unix = local.data()->sa_family == AF_UNIX;
  set_options(impl->socket.native_handle(), impl->is_unix);
  if (impl->is_unix) {
    TRY(const auto who, read_credentials(impl->socket.native_handle()));
    impl->peer = fmt::format("unix:pid {}", who.pid);
  } else {
    impl->peer = to_endpoint(remote).text();
    impl->local_address = to_endpoint(local).host_or_path;
  }
  return std::make_unique<Connection>(std::move(impl));
}

}  // namespace

Connection::Connection(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() { close(); }

Result<std::unique_ptr<Connection>> Connection::adopt(asio::any_io_executor executor, int fd,
                                                      std::string_view received) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error_number = errno;
    ::close(fd);
    return system_error(error_number, "looking at a socket");
  }
  Socket socket(executor);
  error_code error;
  socket.assign(asio::generic::stream_protocol(address.ss_family, 0), fd, error);
  if (error) {
    ::close(fd);
    return system_error(error.value(), "taking over a socket");
  }
  TRY(auto connection, make_connection(std::move(socket)));
  connection->impl_->reader.feed(received);
  return connection;
}

namespace {

Task<Unit> wait_for(Connection::Impl& impl, Socket::wait_type direction) {
  const auto [error] =
      co_await impl.socket.async_wait(direction, asio::as_tuple(asio::use_awaitable));
  if (error == asio::error::operation_aborted && !impl.closed) co_return detail::cancelled_error();
  co_return Unit{};
}

}  // namespace

Task<Frame> Connection::receive() {
  const auto impl = impl_;
  const ReceiveGuard guard(impl->receiving);
  for (;;) {
    if (impl->closed)
      co_return Error{Errc::Unavailable, fmt::format("the connection to {} is closed", impl->peer)};
    if (impl->read_error) co_return *impl->read_error;
    auto next = impl->reader.next();
    if (next.has_error()) {
      impl->read_error = std::move(next).error().with_context(impl->peer);
      continue;
    }
    if (next->has_value()) co_return std::move(**next);
    if (impl->last_read_error) {
      impl->read_error = impl->last_read_error;
      continue;
    }
    if (impl->more_to_read) {
      co_await asio::post(impl->socket.get_executor(), asio::use_awaitable);
    } else {
      auto ready = wait_for(*impl, impl->read_direction);
      CO_TRY_VOID(co_await std::move(ready));
    }
    if (!impl->closed) impl->read();
  }
}

// Take the first bytes instead of peeking: MSG_PEEK never shows anything after an urgent byte.
Task<bool> Connection::peer_begins_tls() {
  const auto impl = impl_;
  const ReceiveGuard guard(impl->receiving);
  constexpr std::size_t kWanted = 3;
  std::string first;
  while (first.size() < kWanted) {
    auto ready = wait_for(*impl, Socket::wait_read);
    CO_TRY_VOID(co_await std::move(ready));
    if (impl->closed) co_return false;
    char bytes[kWanted];
    const IoStep step = read_socket(impl->socket.native_handle(), bytes, kWanted - first.size());
    // Let receive() report the end.
    if (step.kind != IoStep::Moved && step.kind != IoStep::NeedsRead) break;
    first.append(bytes, step.bytes);
  }
  const bool begins = begins_tls(first);
  if (begins)
    impl->first_tls_bytes = std::move(first);
  else
    impl->reader.feed(first);
  co_return begins;
}

Task<Unit> Connection::start_tls(const TlsContext& context, ConnectionSide side) {
  const auto impl = impl_;
  const ReceiveGuard guard(impl->receiving);
  TRAIN_CHECK(!impl->tls && impl->queued_bytes() == 0 && impl->reader.buffered_bytes() == 0,
              "TLS comes before the first frame");
  impl->tls.emplace(context, side, impl->socket.native_handle(),
                    std::exchange(impl->first_tls_bytes, {}));
  for (;;) {
    if (impl->closed)
      co_return Error{Errc::Unavailable, fmt::format("the connection to {} is closed", impl->peer)};
    const IoStep step = impl->tls->handshake();
    if (step.kind == IoStep::Moved) break;
    if (step.kind != IoStep::NeedsRead && step.kind != IoStep::NeedsWrite) {
      Error error = impl->why(step);
      impl->close();
      co_return error;
    }
    auto ready = wait_for(*impl, Impl::direction(step));
    const auto waited = co_await std::move(ready);
    if (waited.has_error()) {  // a half-done handshake is useless
      impl->close();
      co_return waited.error();
    }
  }
  impl->more_to_read = true;  // perhaps: a frame may have arrived with the peer's proof
  co_return Unit{};
}

std::string Connection::binding() const { return impl_->tls ? impl_->tls->binding() : ""; }

std::optional<CertificateName> Connection::certificate_name() const {
  return impl_->tls ? impl_->tls->peer_name() : std::nullopt;
}

void Connection::send(const Frame& frame) {
  if (impl_->closed || impl_->write_error) return;
  append_frame(frame, impl_->pending);
  if (impl_->in_flight.empty()) impl_->start_write();
}

void Connection::send_with_descriptor(const Frame& frame, int descriptor) {
  TRAIN_CHECK(impl_->is_unix && impl_->queued_bytes() == 0,
              "a descriptor goes over a Unix socket, before anything else");
  if (impl_->closed || impl_->write_error) return;
  append_frame(frame, impl_->pending);
  const ssize_t sent =
      send_some_with_descriptor(impl_->socket.native_handle(), impl_->pending, descriptor);
  if (sent > 0) impl_->pending.erase(0, static_cast<std::size_t>(sent));
  if (!impl_->pending.empty()) impl_->start_write();
}

std::size_t Connection::queued_bytes() const { return impl_->queued_bytes(); }

Task<Unit> Connection::wait_queue_below(std::size_t bytes) {
  const auto impl = impl_;
  for (;;) {
    if (impl->closed)
      co_return Error{Errc::Unavailable, fmt::format("the connection to {} is closed", impl->peer)};
    if (impl->write_error) co_return *impl->write_error;
    if (impl->queued_bytes() < bytes) co_return Unit{};
    co_await impl->drained.async_wait(asio::as_tuple(asio::use_awaitable));
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) co_return detail::cancelled_error();
  }
}

Task<Unit> Connection::flush() { return wait_queue_below(1); }

std::string Connection::unread() const { return std::string(impl_->reader.buffered()); }
int Connection::native_handle() const { return impl_->socket.native_handle(); }

void Connection::close() { impl_->close(); }
bool Connection::is_open() const { return !impl_->closed; }

void Connection::set_payload_limit(std::size_t bytes) { impl_->reader.set_payload_limit(bytes); }

bool Connection::is_unix() const { return impl_->is_unix; }
std::string Connection::peer() const { return impl_->peer; }
std::string Connection::local_address() const { return impl_->local_address; }

Result<PeerCredentials> Connection::credentials() const {
  if (!impl_->is_unix)
    return Error{Errc::InvalidArgument, fmt::format("{} is not at a Unix socket", impl_->peer)};
  if (impl_->closed)
    return Error{Errc::Unavailable, fmt::format("the connection to {} is closed", impl_->peer)};
  return read_credentials(impl_->socket.native_handle());
}

}  // namespace train
