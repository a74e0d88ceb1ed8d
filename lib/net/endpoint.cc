#include "lib/net/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace train {
namespace {

constexpr std::size_t kUnixPathBytesMax = 107;  // sockaddr_un has 108, including the final zero

Result<std::uint16_t> parse_port(std::string_view digits, std::string_view whole) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) {
    return Error{Errc::InvalidArgument,
                 fmt::format("port '{}' in '{}' is not a number from 0 to 65535", digits, whole)};
  }
  return port;
}

Result<Endpoint> parse_unix(std::string_view path, std::string_view whole) {
  if (path.empty())
    return Error{Errc::InvalidArgument, fmt::format("'{}' names no path", whole),
                 "write unix:/path/of/the.sock"};
  if (path.size() > kUnixPathBytesMax || path.find('\0') != std::string_view::npos) {
    return Error{
        Errc::InvalidArgument,
        fmt::format("socket path of {} bytes exceeds {}: {}", path.size(), kUnixPathBytesMax, path),
        "choose a shorter folder"};
  }
  return Endpoint::unix_socket(std::string(path));
}

bool is_ipv4_loopback(const unsigned char* address) { return address[0] == 127; }

bool is_ipv6_loopback(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return is_ipv4_loopback(address.s6_addr + 12);
  return IN6_IS_ADDR_LOOPBACK(&address);
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  constexpr std::string_view kUnixPrefix = "unix:";
  if (text.starts_with(kUnixPrefix)) return parse_unix(text.substr(kUnixPrefix.size()), text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return Error{Errc::InvalidArgument, fmt::format("'{}' has no port", text),
                 "write host:port, [v6]:port, :port or unix:/path"};
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr address;
    const std::string number(host.substr(0, host.find('%')));  // a zone may follow
    if (::inet_pton(AF_INET6, number.c_str(), &address) != 1) {
      return Error{Errc::InvalidArgument,
                   fmt::format("'{}' in '{}' is not an IPv6 address", host, text)};
    }
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return Error{Errc::InvalidArgument, fmt::format("'{}' has too many colons", text),
                 "write an IPv6 address as [v6]:port"};
  } else if (host.find_first_of(" \t\r\n/") != std::string_view::npos ||
             host.find('\0') != std::string_view::npos) {
    return Error{Errc::InvalidArgument, fmt::format("'{}' is not a host name", host),
                 "write host:port, or unix:/path for a Unix socket"};
  }
  TRY(const std::uint16_t port, parse_port(text.substr(colon + 1), text));
  return Endpoint::tcp(std::string(host), port);
}

bool Endpoint::is_loopback() const {
  if (kind == Unix || host_or_path == "localhost") return true;
  in_addr v4;
  if (::inet_pton(AF_INET, host_or_path.c_str(), &v4) == 1)
    return is_ipv4_loopback(reinterpret_cast<const unsigned char*>(&v4));
  in6_addr v6;
  return ::inet_pton(AF_INET6, host_or_path.c_str(), &v6) == 1 && is_ipv6_loopback(v6);
}

std::string Endpoint::text() const {
  if (kind == Unix) return "unix:" + host_or_path;
  if (host_or_path.find(':') != std::string::npos)
    return fmt::format("[{}]:{}", host_or_path, port);
  return fmt::format("{}:{}", host_or_path, port);
}

}  // namespace train
