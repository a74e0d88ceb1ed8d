// Joins streams over real sockets and pipes.
#include "daemon/server/dial_stdio.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

/// The launcher's ends of two pipes, traind's end of a socket, and a thread that joins the others.
class Joined {
 public:
  Joined() {
    ::signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> up{}, down{}, pair{};
    EXPECT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    to_launcher.reset(down[0]);
    from_launcher.reset(up[1]);
    traind.reset(pair[0]);
    thread_ = std::thread([this, in = up[0], out = down[1], socket = pair[1]] {
      const FileDescriptor owned[] = {FileDescriptor(in), FileDescriptor(out),
                                      FileDescriptor(socket)};
      EXPECT_TRUE(join_streams(in, out, socket));
    });
  }
  ~Joined() {
    if (thread_.joinable()) thread_.join();
  }
  void wait() { thread_.join(); }

  FileDescriptor from_launcher, to_launcher, traind;

 private:
  std::thread thread_;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> piece{};
  for (ssize_t size = 0; (size = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(size));
  return text;
}

TEST(DialStdio, TheGreetingNamesTheAddressThatTheLauncherHasReached) {
  EXPECT_EQ(dial_greeting("10.0.0.1 4711 10.0.0.2 22"), "traind-dial 1 10.0.0.2\n");
  EXPECT_EQ(dial_greeting("fd00::1 4711 fd00::2 22"), "traind-dial 1 fd00::2\n");
  EXPECT_EQ(dial_greeting(nullptr), "traind-dial 1 -\n");
  EXPECT_EQ(dial_greeting("a b evil;words 22"), "traind-dial 1 -\n");
  EXPECT_EQ(dial_greeting(("a b " + std::string(65, '1')).c_str()), "traind-dial 1 -\n");
}

TEST(DialStdio, WhatTheLauncherHasWrittenArrivesBeforeTheEnd) {
  Joined joined;
  const std::string much(1u << 20, 'x');
  std::thread writer([&] {
    EXPECT_TRUE(write_all(joined.from_launcher.get(), much + "last", "the pipe"));
    joined.from_launcher.reset();
  });
  EXPECT_EQ(read_all(joined.traind.get()), much + "last");
  writer.join();
  joined.wait();
}

TEST(DialStdio, WhatTraindHasWrittenArrivesBeforeTheEnd) {
  Joined joined;
  const std::string much(1u << 20, 'y');
  std::thread writer([&] {
    EXPECT_TRUE(write_all(joined.traind.get(), much, "the socket"));
    joined.traind.reset();
  });
  EXPECT_EQ(read_all(joined.to_launcher.get()), much);
  writer.join();
  joined.wait();
}

TEST(DialStdio, EndsWhenNobodyReadsWhatTraindSays) {
  Joined joined;
  joined.to_launcher.reset();
  joined.wait();  // traind says nothing, and the launcher's other end is open
}

}  // namespace
}  // namespace train
