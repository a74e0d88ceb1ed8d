#include "lib/net/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/net/runtime_dir.h"

namespace train {
namespace {

TEST(Endpoint, ParsesWhatPeopleWrite) {
  struct Case {
    std::string text;
    Endpoint wanted;
  };
  const Case cases[] = {
      {"unix:/run/x.sock", {Endpoint::Unix, "/run/x.sock", 0}},
      {"unix:relative.sock", {Endpoint::Unix, "relative.sock", 0}},
      {"node-b:7070", {Endpoint::Tcp, "node-b", 7070}},
      {"10.0.0.7:65535", {Endpoint::Tcp, "10.0.0.7", 65535}},
      {"[::1]:0", {Endpoint::Tcp, "::1", 0}},
      {"[fe80::1%eth0]:7070", {Endpoint::Tcp, "fe80::1%eth0", 7070}},
      {":7070", {Endpoint::Tcp, "", 7070}},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_endpoint(c.text);
    ASSERT_TRUE(parsed.has_value()) << c.text;
    EXPECT_EQ(*parsed, c.wanted) << c.text;
    EXPECT_EQ(parsed->text(), c.text);
  }
}

TEST(Endpoint, SaysWhatIsWrong) {
  struct Case {
    std::string text, message, hint;
  };
  const Case cases[] = {
      {"node-b", "'node-b' has no port", "write host:port, [v6]:port, :port or unix:/path"},
      {"node-b:", "port '' in 'node-b:' is not a number from 0 to 65535", ""},
      {"node-b:65536", "port '65536' in 'node-b:65536' is not a number from 0 to 65535", ""},
      {"node-b:-1", "port '-1' in 'node-b:-1' is not a number from 0 to 65535", ""},
      {"node-b:70x", "port '70x' in 'node-b:70x' is not a number from 0 to 65535", ""},
      {"::1:7070", "'::1:7070' has too many colons", "write an IPv6 address as [v6]:port"},
      {"[node]:1", "'node' in '[node]:1' is not an IPv6 address", ""},
      {"/run/x.sock:1", "'/run/x.sock' is not a host name",
       "write host:port, or unix:/path for a Unix socket"},
      {"unix:", "'unix:' names no path", "write unix:/path/of/the.sock"},
      {"unix:" + std::string(108, 'x'),
       "socket path of 108 bytes exceeds 107: " + std::string(108, 'x'), "choose a shorter folder"},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_endpoint(c.text);
    ASSERT_TRUE(parsed.has_error()) << c.text;
    EXPECT_EQ(parsed.error(), (Error{Errc::InvalidArgument, c.message, c.hint})) << c.text;
  }
}

TEST(Endpoint, KnowsWhatOnlyThisMachineReaches) {
  for (const char* text : {"unix:/run/x.sock", "127.0.0.1:1", "127.255.0.3:1", "[::1]:1",
                           "[::ffff:127.0.0.1]:1", "localhost:1"}) {
    EXPECT_TRUE(parse_endpoint(text)->is_loopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", ":1", "10.0.0.7:1", "[::ffff:10.0.0.7]:1",
                           "[::ffff:0.0.0.0]:1", "[fe80::1]:1", "node-b:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(parse_endpoint(text)->is_loopback()) << text;
  }
}

TEST(Endpoint, AnswersOfOneWithoutRegardToTheOneBefore) {
  const Endpoint v4 = Endpoint::tcp("127.0.0.1", 1), name = Endpoint::tcp("node-b", 1),
                 far = Endpoint::tcp("10.0.0.7", 1), v6 = Endpoint::tcp("::1", 1);
  const bool after_v4[] = {v4.is_loopback(), name.is_loopback()};
  const bool after_far[] = {far.is_loopback(), v6.is_loopback()};
  EXPECT_TRUE(after_v4[0]);
  EXPECT_FALSE(after_v4[1]);
  EXPECT_FALSE(after_far[0]);
  EXPECT_TRUE(after_far[1]);
}

TEST(RuntimeDir, OfRootAndOfAnotherUser) {
  const bool root = ::geteuid() == 0;
  if (root) {
    EXPECT_EQ(default_runtime_dir(), "/run/trainrun");
    ASSERT_EQ(::seteuid(4711), 0);
  }
  const std::string in_tmp = "/tmp/trainrun-" + std::to_string(::geteuid());
  const char* set = std::getenv("XDG_RUNTIME_DIR");
  const std::string before = set != nullptr ? set : "";
  ::setenv("XDG_RUNTIME_DIR", "/run/user/4711", 1);
  EXPECT_EQ(default_runtime_dir(), "/run/user/4711/trainrun");
  ::setenv("XDG_RUNTIME_DIR", "", 1);
  EXPECT_EQ(default_runtime_dir(), in_tmp);
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(default_runtime_dir(), in_tmp);
  if (set != nullptr) ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}

}  // namespace
}  // namespace train
