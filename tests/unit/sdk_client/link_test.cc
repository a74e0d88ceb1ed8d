// The link to the supervisor by itself: a socket pair, and nobody at the other end.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "sdk/client/supervisor_link.h"

namespace train::sdk {
namespace {

TEST(SupervisorLink, NamesTheSocketThatNobodyAnswers) {
  EXPECT_EQ(connect_supervisor("/tmp/no-such-socket").error().describe(),
            "no supervisor answers at TRAINRUN_SOCKET=/tmp/no-such-socket: No such file or "
            "directory (unset TRAINRUN_SOCKET to run this "
            "program by hand)");
}

TEST(SupervisorLink, TouchesNoDescriptorOfTheProgramOnceItIsStopped) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  SupervisorLink::Owner owner;
  owner.fill = [](std::string&) {};
  owner.on_frame = [](const Frame&) -> Result<Unit> { return Unit{}; };
  owner.on_closed = [](const Error&) {};
  SupervisorLink link(ends[0], FrameReader(), std::move(owner));
  link.stop();
  std::vector<int> files;  // the numbers that the link has let go of are among them
  for (int i = 0; i < 4; ++i) files.push_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

  link.wake();  // of a thread that reports while another one ends the program
  link.abandon_in_fork_child();

  for (const int file : files) {
    std::uint64_t written = 0;
    EXPECT_EQ(::read(file, &written, sizeof written), -1) << "wake() wrote into it";
    EXPECT_EQ(errno, EAGAIN) << "it was closed";
    ::close(file);
  }
  ::close(ends[1]);
}

}  // namespace
}  // namespace train::sdk
