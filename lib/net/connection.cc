#include "lib/net/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "lib/base/check.h"
#include "lib/net/hmac.h"
#include "lib/net/resolve.h"
#include "lib/net/within.h"

namespace train {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64u << 10;
constexpr std::size_t kKeptQueueBytesMax = 256;  // while nothing is queued

void set_int_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value,
               sizeof value);  // none of these is needed for a correct connection
}

// A dead host is noticed by heartbeats; keepalive is for connections that carry none.
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

Error broken(const std::string& peer, const error_code& error) {
  if (error == asio::error::eof)
    return Error{Errc::Unavailable, fmt::format("{} closed the connection", peer)};
  return Error{Errc::Unavailable, fmt::format("connection to {} broke: {}", peer, error.message())};
}

}  // namespace

struct Connection::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(Socket connected)
      : socket(std::move(connected)),
        drained(socket.get_executor(), asio::steady_timer::time_point::max()) {}

  std::size_t queued_bytes() const { return pending.size() + in_flight.size(); }

  // One write at a time; what is queued meanwhile leaves with the next one.
  void start_write() {
    in_flight.swap(pending);
    asio::async_write(socket, asio::buffer(in_flight),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        self->end_write(error);
                      });
  }

  // Of a connection that has nothing to say: one of thousands, perhaps.
  void give_back_buffers() {
    if (in_flight.capacity() > kKeptQueueBytesMax) std::string().swap(in_flight);
    if (pending.capacity() > kKeptQueueBytesMax) std::string().swap(pending);
  }

  void end_write(const error_code& error) {
    in_flight.clear();
    if (error && !closed) {
      // Reading goes on: what the peer said last, perhaps why it left, is still to come.
      write_error = broken(peer, error);
      pending.clear();
    }
    if (!closed && !pending.empty()) start_write();
    if (in_flight.empty()) give_back_buffers();
    drained.cancel();
  }

  // What has arrived. Into a buffer that all connections of the thread share: one of its own for
  // each would be most of what 10,000 connections need.
  void read(error_code error) {
    static thread_local std::array<char, kReadBytes> buffer;
    std::size_t count = 0;
    if (!error) count = socket.read_some(asio::buffer(buffer), error);
    if (error == asio::error::would_block) return;
    if (error)
      read_error = broken(peer, error);
    else
      reader.feed({buffer.data(), count});
  }

  void close() {
    if (closed) return;
    closed = true;
    pending.clear();
    error_code ignored;  // the socket is gone in any case
    socket.shutdown(Socket::shutdown_both, ignored);
    socket.close(ignored);
    drained.cancel();
  }

  Socket socket;
  asio::steady_timer
      drained;  // never expires; cancelled, to wake those who wait, whenever a write ends
  std::string peer, local_address;
  bool is_unix = false;
  FrameReader reader;
  std::string pending, in_flight;
  FrameMac send_mac;
  std::optional<Error> write_error, read_error;
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

// A Unix socket connects at once or not at all; EAGAIN says that the listener's queue is full.
// (Asio would wait until the socket is writable, which it is, and believe it connected.)
Task<Unit> connect_unix(Socket& socket, StreamAddress address) {
  constexpr auto kQueueFullPause = milliseconds(10);
  for (;;) {
    if (::connect(socket.native_handle(), address.data(), static_cast<socklen_t>(address.size())) ==
        0)
      co_return Unit{};
    const int error_number = errno;
    if (error_number != EAGAIN && error_number != EINTR) {
      co_return Error{
          Errc::Unavailable,
          fmt::format("connecting: {}",
                      error_code(error_number, boost::system::system_category()).message())};
    }
    CO_TRY_VOID(co_await pause_for(kQueueFullPause));
  }
}

Task<Unit> connect_tcp(Socket& socket, StreamAddress address) {
  auto [error] = co_await socket.async_connect(address, asio::as_tuple(asio::use_awaitable));
  if (error == asio::error::operation_aborted) co_return detail::cancelled_error();
  if (!error) co_return Unit{};
  // Nobody there to answer, as far as the network knows: the same silence as without its word.
  const bool silence = error == asio::error::host_unreachable ||
                       error == asio::error::network_unreachable ||
                       error == asio::error::network_down || error == asio::error::timed_out;
  co_return Error{silence ? Errc::Timeout : Errc::Unavailable,
                  fmt::format("connecting: {}", error.message())};
}

Task<std::unique_ptr<Connection>> connect_address(asio::any_io_executor executor,
                                                  StreamAddress address, Duration limit) {
  Socket socket(executor);
  error_code error;
  socket.open(address.protocol(), error);
  if (error) co_return system_error(error.value(), "opening a socket");
  const bool is_unix = address.data()->sa_family == AF_UNIX;
  set_options(socket.native_handle(), is_unix);
  socket.native_non_blocking(true, error);
  if (error) co_return system_error(error.value(), "setting up a socket");
  auto attempt = is_unix ? connect_unix(socket, address) : connect_tcp(socket, address);
  CO_TRY_VOID(co_await within(limit, std::move(attempt)));
  co_return make_connection(std::move(socket));
}

}  // namespace

Connection::Connection(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() { close(); }

Task<std::unique_ptr<Connection>> Connection::connect(asio::any_io_executor executor,
                                                      Endpoint endpoint, Duration timeout) {
  const std::string target = endpoint.text();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto found = co_await resolve(executor, endpoint, timeout);
  if (found.has_error())
    co_return std::move(found).error().with_context(fmt::format("connecting to {}", target));
  const std::vector<StreamAddress>& addresses = *found;
  std::optional<Error> first_error;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // A share each, so that an address that swallows packets leaves time for the next.
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) break;
    auto connected = co_await connect_address(executor, addresses[i],
                                              left / static_cast<long>(addresses.size() - i));
    if (connected.has_value()) co_return std::move(connected);
    if (connected.error().code == Errc::Cancelled) co_return std::move(connected);
    if (!first_error) first_error = std::move(connected).error();
  }
  if (!first_error) first_error = detail::timeout_error(timeout);
  co_return std::move(*first_error).with_context(target);
}

Result<std::unique_ptr<Connection>> Connection::adopt(asio::any_io_executor executor, int fd) {
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
  return make_connection(std::move(socket));
}

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
    const auto [error] =
        co_await impl->socket.async_wait(Socket::wait_read, asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted && !impl->closed)
      co_return detail::cancelled_error();
    impl->read(error);
  }
}

void Connection::send(const Frame& frame) {
  if (impl_->closed || impl_->write_error) return;
  append_frame(frame, impl_->pending, impl_->send_mac);
  if (impl_->in_flight.empty()) impl_->start_write();
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

void Connection::close() { impl_->close(); }
bool Connection::is_open() const { return !impl_->closed; }

void Connection::set_session_key(std::string_view key, ConnectionSide side) {
  constexpr std::string_view kConnector = "connector", kListener = "listener";
  const bool connector = side == ConnectionSide::Connector;
  impl_->send_mac = make_frame_mac(key, connector ? kConnector : kListener);
  impl_->reader.set_mac(make_frame_mac(key, connector ? kListener : kConnector));
}

void Connection::set_payload_limit(std::size_t bytes) { impl_->reader.set_payload_limit(bytes); }

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
