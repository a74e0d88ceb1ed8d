#include "lib/data/flight/flight_terms.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_numeric(const std::string& host) {
  in6_addr v6{};
  return ::inet_pton(AF_INET, host.c_str(), &v6) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

}  // namespace

Result<arrow::flight::Location> flight_location(const std::string& host, int port, bool tls) {
  if (!is_numeric(host))
    return Error{Errc::InvalidArgument, fmt::format("'{}' is no address of a machine", host)};
  if (!tls && !is_loopback(host))
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' can be reached from other machines: rows would travel there "
                             "unprotected, without a certificate",
                             host)};
  const std::string written = host.find(':') == std::string::npos ? host : "[" + host + "]";
  ARROW_TRY(auto location, "cannot use an address for Flight",
            tls ? arrow::flight::Location::ForGrpcTls(written, port)
                : arrow::flight::Location::ForGrpcTcp(written, port));
  return location;
}

Result<arrow::flight::Location> flight_location(std::string_view address, bool tls) {
  const std::size_t colon = std::min(address.rfind(':'), address.size());
  std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(std::min(colon + 1, address.size()));
  int port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || read.ec != std::errc() || read.ptr != digits.data() + digits.size() ||
      port < 1 || port > 65535)
    return Error{Errc::InvalidArgument, fmt::format("'{}' is no address with a port", address)};
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return flight_location(std::string(host), port, tls);
}

}  // namespace train::data
