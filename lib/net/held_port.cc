#include "lib/net/held_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace train {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address any_address(bool v6) {
  Address address;
  if (v6) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_addr = in6addr_any;
    address.size = sizeof *in6;
  } else {
    auto* in4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    in4->sin_family = AF_INET;
    address.size = sizeof *in4;
  }
  return address;
}

Result<Address> parse_address(const std::string& text) {
  Address address = any_address(false);
  if (::inet_pton(AF_INET, text.c_str(),
                  &reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr) == 1)
    return address;
  address = any_address(true);
  if (::inet_pton(AF_INET6, text.c_str(),
                  &reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr) == 1)
    return address;
  return Error{Errc::InvalidArgument, "'" + text + "' is not a numeric address"};
}

int bind_to(const Address& address) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6)
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<HeldPort> HeldPort::bind(const std::string& address, std::uint16_t port) {
  int fd = -1;
  if (address.empty()) {
    fd = bind_to(any_address(true));
    if (fd < 0) fd = bind_to(any_address(false));  // a machine without IPv6
  } else {
    TRY(Address parsed, parse_address(address));
    // At the same place in both kinds of address.
    reinterpret_cast<sockaddr_in*>(&parsed.storage)->sin_port = htons(port);
    fd = bind_to(parsed);
  }
  if (fd < 0)
    return system_error(
        errno, "binding a port of " + (address.empty() ? std::string("all addresses") : address));
  Address bound;
  bound.size = sizeof bound.storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size);
  const auto number = bound.storage.ss_family == AF_INET6
                          ? reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port
                          : reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port;
  return HeldPort(fd, ntohs(number));
}

HeldPort& HeldPort::operator=(HeldPort&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(port_, other.port_);
  return *this;
}

HeldPort::~HeldPort() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace train
