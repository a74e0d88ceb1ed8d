#include "sdk/torch/local_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>

namespace train::sdk {
namespace {

using ::testing::HasSubstr;

const std::vector<InterfaceAddress> kInterfaces{
    {.interface = "lo", .address = "127.0.0.1", .up = true, .loopback = true},
    {.interface = "eth9", .address = "10.9.0.1", .up = false},
    {.interface = "eth0", .address = "fe80::1%eth0", .up = true},
    {.interface = "eth0", .address = "2001:db8::7", .up = true},
    {.interface = "eth0", .address = "10.0.0.7", .up = true},
};

TEST(AddressForPeers, IsTheOneTowardsTheMaster) {
  EXPECT_EQ(*address_for_peers("10.0.0.7", 2, kInterfaces), "10.0.0.7");
  EXPECT_EQ(*address_for_peers("127.0.0.1", 1, kInterfaces), "127.0.0.1");
}

TEST(AddressForPeers, IsNoLoopbackAddressOnSeveralNodes) {
  EXPECT_EQ(*address_for_peers("127.0.1.1", 2, kInterfaces), "10.0.0.7");
}

TEST(AddressForPeers, SaysWhatToSetWhereThereIsNone) {
  const auto found = address_for_peers("127.0.1.1", 2, {kInterfaces[0], kInterfaces[1]});

  EXPECT_EQ(
      found.error(),
      (Error{Errc::Unavailable, "the job has 2 nodes, and this one has no address but 127.0.1.1",
             "set GLOO_SOCKET_IFNAME to the interface that the other nodes reach"}));
}

TEST(ListInterfaceAddresses, FindsTheLoopbackInterface) {
  const auto found = list_interface_addresses();

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(std::count_if(found->begin(), found->end(),
                          [](const InterfaceAddress& each) {
                            return each.address == "127.0.0.1" && each.loopback;
                          }),
            1);
}

TEST(AddressTowards, WaitsUntilTheMasterListens) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);

  auto found = std::async(std::launch::async, [&] {
    return address_towards("127.0.0.1", ntohs(address.sin_port), std::chrono::seconds(30));
  });
  ASSERT_EQ(::listen(fd, 4), 0);

  const auto local = found.get();
  ::close(fd);
  ASSERT_TRUE(local.has_value()) << local.error().message;
  EXPECT_EQ(*local, "127.0.0.1");
}

TEST(AddressTowards, SaysWhyNobodyAnswered) {
  const auto found = address_towards("127.0.0.1", 1, std::chrono::milliseconds(20));

  EXPECT_EQ(found.error(),
            (Error{Errc::Timeout,
                   "connecting to rank 0's store at 127.0.0.1:1 for 20 ms: Connection refused",
                   "check whether rank 0 started, and whether a firewall blocks the connection"}));
}

}  // namespace
}  // namespace train::sdk
