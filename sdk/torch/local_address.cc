#include "sdk/torch/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace train::sdk {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRetryFirst{2};
constexpr std::chrono::milliseconds kRetryMax{50};

std::string numeric(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

bool is_loopback(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address == "::1" || address.rfind("::ffff:127.", 0) == 0;
}

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

// Return 0, or the errno of the attempt.
int connect_once(const addrinfo& to, Clock::time_point deadline, std::string& local) {
  Socket socket{::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (socket.fd < 0) return errno;
  if (::connect(socket.fd, to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wait{socket.fd, POLLOUT, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (::poll(&wait, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'000))) != 1)
      return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return errno;
  local = numeric(reinterpret_cast<const sockaddr*>(&name), size);
  return local.empty() ? EAFNOSUPPORT : 0;
}

}  // namespace

Result<std::string> address_towards(const std::string& host, int port,
                                    std::chrono::milliseconds timeout) {
  const Clock::time_point deadline =
      Clock::now() + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24));
  const std::string where = host + ":" + std::to_string(port);
  std::chrono::milliseconds pause = kRetryFirst;
  std::string why = "nobody tried";
  for (;;) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (failed != 0) {
      why = ::gai_strerror(failed);
    } else {
      const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
      for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        std::string local;
        const int error = connect_once(*each, deadline, local);
        if (error == 0) return local;
        why = std::strerror(error);
      }
    }
    if (Clock::now() + pause >= deadline) {
      return Error{Errc::Timeout,
                   "connecting to rank 0's store at " + where + " for " +
                       std::to_string(timeout.count()) + " ms: " + why,
                   "check whether rank 0 started, and whether a firewall blocks the connection"};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kRetryMax);
  }
}

Result<std::string> address_for_peers(const std::string& towards_master, int node_count,
                                      const std::vector<InterfaceAddress>& interfaces) {
  if (node_count <= 1 || !is_loopback(towards_master)) return towards_master;
  const InterfaceAddress* best = nullptr;
  for (const InterfaceAddress& each : interfaces) {
    if (!each.up || each.loopback || each.address.rfind("fe80:", 0) == 0) continue;
    const bool ipv4 = each.address.find(':') == std::string::npos;
    if (best == nullptr || (ipv4 && best->address.find(':') != std::string::npos)) best = &each;
  }
  if (best != nullptr) return best->address;
  return Error{Errc::Unavailable,
               "the job has " + std::to_string(node_count) +
                   " nodes, and this one has no address but " + towards_master,
               "set GLOO_SOCKET_IFNAME to the interface that the other nodes reach"};
}

Result<std::vector<InterfaceAddress>> list_interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return system_error(errno, "reading the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({.interface = each->ifa_name,
                     .address = numeric(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in)
                                                                          : sizeof(sockaddr_in6)),
                     .up = (each->ifa_flags & IFF_UP) != 0,
                     .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

}  // namespace train::sdk
