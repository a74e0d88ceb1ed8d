#include "lib/net/held_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "lib/base/file_descriptor.h"

namespace train {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int family_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size), 0);
  return bound.ss_family;
}

/// Return whether another program could bind the port on 127.0.0.1, with SO_REUSEADDR if `reuse`.
bool can_bind(std::uint16_t port, bool reuse) {
  const FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  ::setsockopt(other.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = loopback(port);
  return ::bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool has_ipv6() {
  const FileDescriptor probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST(HeldPort, IsHeldAndARankThatBindsBesideItMay) {
  const auto port = HeldPort::bind("127.0.0.1");

  ASSERT_TRUE(port) << port.error().describe();
  EXPECT_NE(port->port(), 0);
  EXPECT_EQ(family_of(port->fd()), AF_INET);
  EXPECT_FALSE(can_bind(port->port(), /*reuse=*/false));
  EXPECT_TRUE(can_bind(port->port(), /*reuse=*/true));
}

TEST(HeldPort, OfAllAddressesIsThatOfIpv4AndIpv6) {
  const auto port = HeldPort::bind("");

  ASSERT_TRUE(port) << port.error().describe();
  EXPECT_NE(port->port(), 0);
  EXPECT_FALSE(can_bind(port->port(), /*reuse=*/false));
  // Rank 0 listens on it, and a peer connects by IPv4.
  ASSERT_EQ(::listen(port->fd(), 1), 0);
  const FileDescriptor peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port->port());
  EXPECT_EQ(::connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(family_of(port->fd()), has_ipv6() ? AF_INET6 : AF_INET);
}

TEST(HeldPort, OfAnIpv6Address) {
  if (!has_ipv6()) GTEST_SKIP() << "needs IPv6";
  const auto port = HeldPort::bind("::1");

  ASSERT_TRUE(port) << port.error().describe();
  EXPECT_NE(port->port(), 0);
  EXPECT_EQ(family_of(port->fd()), AF_INET6);
}

TEST(HeldPort, ClosesWhatItHolds) {
  std::uint16_t number = 0;
  int fd = -1;
  {
    auto first = HeldPort::bind("127.0.0.1");
    ASSERT_TRUE(first);
    number = first->port();
    fd = first->fd();
    const HeldPort moved(std::move(*first));
    EXPECT_EQ(moved.fd(), fd);
    EXPECT_EQ(moved.port(), number);
  }
  EXPECT_LT(::fcntl(fd, F_GETFD), 0);
  EXPECT_TRUE(can_bind(number, /*reuse=*/false));
}

TEST(HeldPort, AssignedToAnotherItIsThatOnes) {
  auto first = HeldPort::bind("127.0.0.1"), second = HeldPort::bind("127.0.0.1");
  ASSERT_TRUE(first && second);
  const int fd = second->fd();
  const std::uint16_t port = second->port();

  *first = std::move(*second);

  EXPECT_EQ(first->fd(), fd);
  EXPECT_EQ(first->port(), port);
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
}

TEST(HeldPort, IsNotInheritedByItself) {
  const auto port = HeldPort::bind("127.0.0.1");
  ASSERT_TRUE(port);
  EXPECT_EQ(::fcntl(port->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(HeldPort, ThatCannotBeBoundHoldsNothing) {
  const auto lowest_free = [] { return FileDescriptor(::dup(STDIN_FILENO)).get(); };
  const int before = lowest_free();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(HeldPort::bind("203.0.113.7"));
  EXPECT_EQ(lowest_free(), before);
}

TEST(HeldPort, IsTheOneThatIsAskedFor) {
  auto first = HeldPort::bind("127.0.0.1");
  ASSERT_TRUE(first);
  const std::uint16_t number = first->port();
  EXPECT_TRUE(HeldPort::bind("127.0.0.1", number)) << "nobody listens on it";
  ASSERT_EQ(::listen(first->fd(), 1), 0);
  EXPECT_FALSE(HeldPort::bind("127.0.0.1", number));
  { const HeldPort closed(std::move(*first)); }

  const auto again = HeldPort::bind("127.0.0.1", number);

  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(again->port(), number);
}

TEST(HeldPort, AnAddressThatIsNoneOrIsNotHereIsSaid) {
  const auto name = HeldPort::bind("node-a");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Errc::InvalidArgument);
  EXPECT_EQ(name.error().message, "'node-a' is not a numeric address");

  const auto elsewhere = HeldPort::bind("203.0.113.7");  // RFC 5737: an address of no machine
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().message,
            "binding a port of 203.0.113.7: Cannot assign requested address");
}

}  // namespace
}  // namespace train
