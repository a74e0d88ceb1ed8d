#include "daemon/supervisor/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <memory>

namespace train {
namespace {

std::string text_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  else if (address.sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  else
    return "";
  return ::inet_ntop(address.sa_family, bytes, text, sizeof text) == nullptr ? "" : text;
}

}  // namespace

std::string interface_of(const std::string& numeric_address) {
  ifaddrs* first = nullptr;
  if (numeric_address.empty() || ::getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    if (text_of(*each->ifa_addr) == numeric_address) return each->ifa_name;
  }
  return "";
}

}  // namespace train
