#include "lib/net/resolve.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <optional>

#include "lib/net/within.h"

namespace train {
namespace {

using asio::ip::tcp;

struct Lookup {  // shared with the resolver's answer, which may arrive after we stopped waiting
  explicit Lookup(const asio::any_io_executor& executor) : resolver(executor), answered(executor) {}
  tcp::resolver resolver;
  asio::steady_timer answered;
  std::optional<boost::system::error_code> error;
  tcp::resolver::results_type results;
};

Error unknown_host(const Endpoint& endpoint, const boost::system::error_code& error) {
  return Error{Errc::Unavailable,
               fmt::format("host '{}' has no address: {}", endpoint.host_or_path, error.message())};
}

// Return the addresses of an endpoint that needs no lookup (a Unix path, a numeric address, or an
// empty host), else nothing.
std::optional<std::vector<StreamAddress>> known_address(
    const Endpoint& endpoint, const std::vector<asio::ip::address>& if_empty) {
  if (endpoint.kind == Endpoint::Unix) {
    return std::vector<StreamAddress>{
        asio::local::stream_protocol::endpoint(endpoint.host_or_path)};
  }
  std::vector<StreamAddress> out;
  if (endpoint.host_or_path.empty()) {
    for (const auto& address : if_empty) out.push_back(tcp::endpoint(address, endpoint.port));
    return out;
  }
  boost::system::error_code error;
  const auto address = asio::ip::make_address(endpoint.host_or_path, error);
  if (error) return std::nullopt;
  out.push_back(tcp::endpoint(address, endpoint.port));
  return out;
}

std::vector<StreamAddress> to_addresses(const tcp::resolver::results_type& results) {
  std::vector<StreamAddress> out;
  for (const auto& entry : results) out.push_back(entry.endpoint());
  return out;
}

Result<Unit> check_path(const Endpoint& endpoint) {
  if (endpoint.kind == Endpoint::Unix &&
      (endpoint.host_or_path.empty() ||
       endpoint.host_or_path.size() >= sizeof(sockaddr_un::sun_path))) {
    return Error{Errc::InvalidArgument,
                 fmt::format("socket path of {} bytes is not between 1 and {}: {}",
                             endpoint.host_or_path.size(), sizeof(sockaddr_un::sun_path) - 1,
                             endpoint.host_or_path)};
  }
  return Unit{};
}

}  // namespace

Task<std::vector<StreamAddress>> resolve(asio::any_io_executor executor, Endpoint endpoint,
                                         Duration limit) {
  CO_TRY_VOID(check_path(endpoint));
  if (auto known = known_address(
          endpoint, {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()})) {
    co_return std::move(*known);
  }
  const auto lookup = std::make_shared<Lookup>(executor);
  lookup->answered.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(limit));
  lookup->resolver.async_resolve(
      endpoint.host_or_path, std::to_string(endpoint.port), tcp::resolver::numeric_service,
      [lookup](const boost::system::error_code& error, const tcp::resolver::results_type& results) {
        lookup->error = error;
        lookup->results = results;
        lookup->answered.cancel();
      });
  auto [wait_error] = co_await lookup->answered.async_wait(asio::as_tuple(asio::use_awaitable));
  if (!lookup->error) {
    lookup->resolver.cancel();
    if (wait_error) co_return detail::cancelled_error();
    co_return detail::timeout_error(limit).with_context(
        fmt::format("resolving host '{}'", endpoint.host_or_path));
  }
  if (*lookup->error || lookup->results.empty()) co_return unknown_host(endpoint, *lookup->error);
  co_return to_addresses(lookup->results);
}

Result<std::vector<StreamAddress>> resolve_to_listen(asio::any_io_executor executor,
                                                     const Endpoint& endpoint) {
  TRY_VOID(check_path(endpoint));
  // "::" also accepts IPv4 connections; 0.0.0.0 is for a kernel without IPv6.
  if (auto known =
          known_address(endpoint, {asio::ip::address_v6::any(), asio::ip::address_v4::any()}))
    return std::move(*known);
  tcp::resolver resolver(executor);
  boost::system::error_code error;
  const auto results =
      resolver.resolve(endpoint.host_or_path, std::to_string(endpoint.port),
                       tcp::resolver::numeric_service | tcp::resolver::passive, error);
  if (error || results.empty()) return unknown_host(endpoint, error);
  return to_addresses(results);
}

Endpoint to_endpoint(const StreamAddress& address) {
  if (address.data()->sa_family == AF_UNIX) {
    sockaddr_un local{};
    std::memcpy(&local, address.data(), std::min(address.size(), sizeof local));
    return Endpoint::unix_socket(
        std::string(local.sun_path, ::strnlen(local.sun_path, sizeof local.sun_path)));
  }
  tcp::endpoint tcp_address;
  std::memcpy(tcp_address.data(), address.data(), std::min(address.size(), tcp_address.capacity()));
  return Endpoint::tcp(tcp_address.address().to_string(), tcp_address.port());
}

}  // namespace train
