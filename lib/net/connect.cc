// This file implements Connection::connect: it looks up names, tries addresses, and limits how long
// each may take.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>

#include "lib/net/connection.h"
#include "lib/net/resolve.h"
#include "lib/net/within.h"

namespace train {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

// Connect a Unix socket, which connects immediately or not at all; EAGAIN means that the listener's
// queue is full. (Asio would then wait until the socket is writable, which it already is, and take
// it for connected.)
Task<Unit> connect_unix(Socket& socket, StreamAddress address) {
  constexpr auto kQueueFullPause = milliseconds(10);
  for (;;) {
    if (::connect(socket.native_handle(), address.data(), static_cast<socklen_t>(address.size())) ==
        0)
      co_return Unit{};
    const int error_number = errno;
    if (error_number != EAGAIN && error_number != EINTR) {
      // Only these two errors mean that nobody listens there.
      if (error_number != ECONNREFUSED && error_number != ENOENT)
        co_return system_error(error_number, "connecting");
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
  // The network reports that the host cannot answer. Treat that like a host that does not answer.
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
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  const bool is_unix = address.data()->sa_family == AF_UNIX;
  socket.native_non_blocking(true, error);
  if (error) co_return system_error(error.value(), "setting up a socket");
  auto attempt = is_unix ? connect_unix(socket, address) : connect_tcp(socket, address);
  CO_TRY_VOID(co_await within(limit, std::move(attempt)));
  const int fd = socket.release(error);
  if (error) co_return system_error(error.value(), "taking over a socket");
  co_return Connection::adopt(std::move(executor), fd);
}

}  // namespace

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
    // Give each address a share of the time, so that one that drops packets leaves time for the
    // next.
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

}  // namespace train
