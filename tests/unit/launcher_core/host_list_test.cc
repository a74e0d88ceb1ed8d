#include "launcher/core/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string refusal(const std::string& text) {
  const auto list = parse_hosts_file(text);
  return list ? "" : list.error().message;
}

TEST(HostsFile, NamesANodeOnEachLineWithOrWithoutAPort) {
  EXPECT_THAT(*parse_hosts_file("# two nodes\ngpu-1\n\n  gpu-2:7171  # the second\r\n[fd00::1]\n"
                                "10.0.0.7\nunix:/run/traind.sock\nssh:me@gpu-3\n"),
              ElementsAre("gpu-1:7070", "gpu-2:7171", "[fd00::1]:7070", "10.0.0.7:7070",
                          "unix:/run/traind.sock", "ssh:me@gpu-3"));
  EXPECT_THAT(*parse_hosts_file("gpu-1,gpu-2"), ElementsAre("gpu-1:7070", "gpu-2:7070"));
}

TEST(HostsFile, NamesEachNodeOnceAsBatchSystemsAndMpiRepeatThem) {
  EXPECT_THAT(*parse_hosts_file("n1\nn1\nn2\nn2\n"), ElementsAre("n1:7070", "n2:7070"));
  EXPECT_THAT(*parse_hosts_file("n1 slots=8\nn2 slots=8 max_slots=8\nn1:7070\n"),
              ElementsAre("n1:7070", "n2:7070"));
  EXPECT_THAT(*parse_hosts_file("n1:29400\nn1\n"), ElementsAre("n1:29400", "n1:7070"));
}

TEST(HostsFile, MayNameNobodyYet) {
  EXPECT_THAT(*parse_hosts_file(""), IsEmpty());
  EXPECT_THAT(*parse_hosts_file("# soon\n \n,,\nslots=4\n"), IsEmpty());
}

TEST(HostsFile, RefusesWhatIsNoHost) {
  EXPECT_EQ(refusal("a\n-oProxyCommand=x -x\n"), "'-x' has a host that is no name");
  EXPECT_EQ(refusal("a;reboot"), "'a;reboot' has a host that is no name");
  EXPECT_EQ(refusal("$(reboot)"), "'$(reboot)' has a host that is no name");
  EXPECT_EQ(refusal("a:0"), "'a:0' has no port from 1 to 65535");
  EXPECT_EQ(refusal("a:65536"), "'a:65536' has no port from 1 to 65535");
  EXPECT_EQ(refusal("a:9223372036854775808"),
            "'a:9223372036854775808' has no port from 1 to 65535");
  EXPECT_EQ(refusal("a:-1"), "'a:-1' has no port from 1 to 65535");
  EXPECT_EQ(refusal("fd00::1"), "'fd00::1' has an IPv6 address without brackets");
  EXPECT_EQ(refusal("me@a"), "'me@a' has a user: write ssh:USER@HOST to reach it by ssh");
  EXPECT_EQ(refusal("unix:run/x"), "'unix:run/x' has no absolute path");
  EXPECT_EQ(refusal("unix:/" + std::string(107, 'a')),
            "'unix:/" + std::string(107, 'a') + "' has a path too long for a socket");
  EXPECT_EQ(refusal("ssh:-x"), "'ssh:-x' has a host that is no name");
  EXPECT_EQ(refusal(std::string("a\0b", 3)), std::string("'a\0b' has a host that is no name", 32));
  EXPECT_EQ(refusal("\x1b[31m"), "'\x1b[31m' has a host that is no name");
  EXPECT_EQ(refusal("\xff"), "'\xff' has a host that is no name");
}

TEST(HostsFile, HasLimits) {
  EXPECT_EQ(refusal(std::string(kHostListBytesMax + 1, '\n')), "it has more than 1048576 bytes");
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(std::string(kHostListBytesMax, '\n')), "");
  EXPECT_EQ(refusal("a\n#" + std::string(kHostLineBytesMax, 'x')),
            "line 2 has more than 4096 bytes");
  EXPECT_EQ(refusal("#" + std::string(kHostLineBytesMax - 1, 'x')), "");
  std::string many;
  for (std::size_t i = 0; i < kHostsMax; ++i) many += "n" + std::to_string(i) + "\n";
  EXPECT_EQ(parse_hosts_file(many)->size(), kHostsMax);
  EXPECT_EQ(parse_hosts_file(many + many)->size(), kHostsMax);
  EXPECT_EQ(refusal(many + "one-more"), "it has more than 16384 hosts");
}

TEST(DnsName, HasAPortOrThatOfTraind) {
  EXPECT_EQ(*parse_dns_name("mnist"), (DnsName{"mnist", 7070}));
  EXPECT_EQ(*parse_dns_name("mnist.team.svc.cluster.local:7171"),
            (DnsName{"mnist.team.svc.cluster.local", 7171}));
}

TEST(DnsName, IsAName) {
  const auto mistake = [](std::string_view text) {
    const auto name = parse_dns_name(text);
    return name ? "" : name.error().message;
  };
  EXPECT_EQ(mistake(""), "has no host");
  EXPECT_EQ(mistake(":7070"), "has no host");
  EXPECT_EQ(mistake("mnist:"), "has no port from 1 to 65535");
  EXPECT_EQ(mistake("mnist:0"), "has no port from 1 to 65535");
  EXPECT_EQ(mistake("me@mnist"), "has a user");
  EXPECT_EQ(mistake("[fd00::1]:7070"), "is an address, not a name");
  EXPECT_EQ(mistake("mnist/x"), "has a host that is no name");
  EXPECT_EQ(mistake("-x"), "has a host that is no name");
}

TEST(NodeAddress, HasBracketsAroundIpv6) {
  EXPECT_EQ(node_address("10.0.0.7", 7070), "10.0.0.7:7070");
  EXPECT_EQ(node_address("fd00::1", 7070), "[fd00::1]:7070");
}

}  // namespace
}  // namespace train
