// Hosts with addresses other than IPv4.
#include <fmt/format.h>
#include <netinet/in.h>

#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

class AddressesTest : public NetTest {
 protected:
  static bool has_ipv6() {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 loopback{};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    const bool has =
        fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
    ::close(fd);
    return has;
  }
};

TEST_F(AddressesTest, ListensAndConnectsByIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback address";
  run([&]() -> asio::awaitable<void> {
    auto listener = Listener::listen(executor(), parse_endpoint("[::1]:0").value()).value();
    const Endpoint target = listener->local_endpoint();
    EXPECT_EQ(target.text(), fmt::format("[::1]:{}", target.port));
    auto client = co_await Connection::connect(executor(), target, 10s);
    EXPECT_TRUE(client.has_value()) << client.error().describe();
    auto server = co_await within(10s, listener->accept());
    EXPECT_TRUE(server.has_value());
    // It listens only on the requested address.
    auto other =
        co_await Connection::connect(executor(), Endpoint::tcp("127.0.0.1", target.port), 10s);
    EXPECT_EQ(other.error().code, Errc::Unavailable);
  });
}

TEST_F(AddressesTest, AllOfIpv6IsNotAllOfIpv4) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback address";
  run([&]() -> asio::awaitable<void> {
    for (const char* text : {"[::]:0", ":0"}) {
      auto listener = Listener::listen(executor(), parse_endpoint(text).value()).value();
      const auto port = listener->local_endpoint().port;
      auto by_4 = co_await Connection::connect(executor(), Endpoint::tcp("127.0.0.1", port), 10s);
      EXPECT_EQ(by_4.has_value(), std::string_view(text) == ":0") << text;
      auto by_6 = co_await Connection::connect(executor(), Endpoint::tcp("::1", port), 10s);
      EXPECT_TRUE(by_6.has_value()) << text;
    }
  });
}

TEST_F(AddressesTest, TriesTheNextAddressOfAHostWhereNobodyAnswersAtTheFirst) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback address";
  run([&]() -> asio::awaitable<void> {
    auto listener = Listener::listen(executor(), parse_endpoint("[::1]:0").value()).value();
    // An empty host has two addresses: 127.0.0.1, and then ::1.
    const Endpoint both = Endpoint::tcp("", listener->local_endpoint().port);
    auto client = co_await Connection::connect(executor(), both, 10s);
    EXPECT_TRUE(client.has_value()) << client.error().describe();
    if (!client.has_value()) co_return;
    EXPECT_TRUE((*client)->peer().starts_with("[::1]:")) << (*client)->peer();
    listener->close();
    auto nobody = co_await Connection::connect(executor(), both, 10s);
    EXPECT_TRUE(nobody.has_error());
    if (nobody.has_value()) co_return;
    EXPECT_EQ(nobody.error(),
              (Error{Errc::Unavailable, both.text() + ": connecting: Connection refused"}));
  });
}

}  // namespace
}  // namespace train
