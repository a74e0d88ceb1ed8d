// Tests the link to the supervisor alone: a socket pair, and nobody at the other end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "sdk/client/supervisor_link.h"

namespace train::sdk {
namespace {

TEST(SupervisorLink, NamesTheSocketThatNobodyAnswers) {
  EXPECT_EQ(connect_supervisor("/tmp/no-such-socket").error().describe(),
            "no supervisor answers at TRAINRUN_SOCKET=/tmp/no-such-socket: No such file or "
            "directory (unset TRAINRUN_SOCKET to run this "
            "program by hand)");
}

TEST(SupervisorLink, RefusesAPathThatNoSocketHas) {
  const std::string longest(sizeof(sockaddr_un{}.sun_path) - 1, 'x');
  EXPECT_EQ(connect_supervisor(longest).error().code, Errc::Unavailable);
  EXPECT_EQ(connect_supervisor(longest + "x").error().code, Errc::InvalidArgument);
}

/// Return the result of a worker's hello if the supervisor answers with `bytes` and then closes.
Result<JoinedSocket> joined_by(const std::string& bytes) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_EQ(::send(ends[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ::shutdown(ends[1], SHUT_WR);
  auto joined = join_supervisor(ends[0], WorkerHello{});
  EXPECT_EQ(::fcntl(ends[0], F_GETFD) == -1, joined.has_error()) << "a failed one closes its end";
  ::close(ends[1]);
  return joined;
}
template <class Message>
std::string bytes_of(const Message& message) {
  std::string bytes;
  append_frame(encode(message, Attempt{0}), bytes);
  return bytes;
}

TEST(SupervisorLink, SaysWhyNobodyWelcomedTheWorker) {
  EXPECT_EQ(joined_by("").error().describe(),
            "the supervisor closed the connection instead of welcoming this worker");
  Refused refused;
  refused.message = "no such rank";
  refused.hint = "ask again";
  EXPECT_EQ(joined_by(bytes_of(refused)).error().describe(),
            "the supervisor refused this worker: no such rank (ask again)");
  EXPECT_EQ(joined_by(bytes_of(GoodbyeAck{})).error().describe(),
            "the supervisor answered hello with GoodbyeAck");
}

TEST(SupervisorLink, JoinsASupervisorOfItsOwnProtocolOnly) {
  Welcome welcome;
  for (const std::uint32_t protocol : {kProtocolMin - 1, kProtocolMax + 1}) {
    welcome.protocol = protocol;
    EXPECT_EQ(joined_by(bytes_of(welcome)).error().code, Errc::Protocol) << protocol;
  }
  for (const std::uint32_t protocol : {kProtocolMin, kProtocolMax}) {
    welcome.protocol = protocol;
    welcome.run.run_name = "vit";
    const auto joined = joined_by(bytes_of(welcome) + bytes_of(GoodbyeAck{}));
    ASSERT_FALSE(joined.has_error()) << joined.error().describe();
    EXPECT_EQ(joined->welcome.run.run_name, "vit");
    FrameReader behind = joined->reader;
    EXPECT_EQ(behind.next()->value().type, MessageType::GoodbyeAck);
    ::close(joined->fd);
  }
}

TEST(SupervisorLink, TakesTheFileThatComesWithTheWelcome) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Welcome welcome;
  welcome.protocol = kProtocolMax;
  std::string bytes = bytes_of(welcome);
  const int file = ::memfd_create("progress", MFD_CLOEXEC);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  ASSERT_EQ(::sendmsg(ends[1], &message, 0), static_cast<ssize_t>(bytes.size()));

  const auto joined = join_supervisor(ends[0], WorkerHello{});

  ASSERT_FALSE(joined.has_error()) << joined.error().describe();
  struct stat sent {
  }, taken{};
  EXPECT_EQ(::fstat(file, &sent), 0);
  EXPECT_EQ(::fstat(joined->progress.get(), &taken), 0);
  EXPECT_EQ(sent.st_ino, taken.st_ino);
  EXPECT_NE(::fcntl(joined->progress.get(), F_GETFD) & FD_CLOEXEC, 0);
  for (const int end : {joined->fd, ends[1], file}) ::close(end);
}

TEST(SupervisorLink, SaysThatTheSupervisorTookNoHello) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ::close(ends[1]);
  EXPECT_EQ(join_supervisor(ends[0], WorkerHello{}).error().describe(),
            "sending to the supervisor: Broken pipe");
}

TEST(SupervisorLink, EndsWhereTheSupervisorWentWithoutReading) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::promise<Error> closed;
  bool filled = false;
  SupervisorLink::Owner owner;
  owner.fill = [&](std::string& out) {
    if (!std::exchange(filled, true)) out = "a frame that nobody reads";
  };
  owner.on_frame = [](const Frame&) -> Result<Unit> { return Unit{}; };
  owner.on_closed = [&](const Error& error) { closed.set_value(error); };
  SupervisorLink link(ends[0], FrameReader(), std::move(owner));
  pollfd unread{.fd = ends[1], .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&unread, 1, -1), 1);

  ::close(ends[1]);  // a reset, not an end

  EXPECT_EQ(closed.get_future().get(),
            (Error{Errc::Unavailable, "the supervisor closed the connection"}));
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
  char byte = 0;
  EXPECT_EQ(::recv(ends[1], &byte, 1, MSG_DONTWAIT), 0) << "the link's end is open still";
  std::vector<int> files;  // reuse the numbers that the link has closed
  for (int i = 0; i < 4; ++i) files.push_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

  link.wake();  // called by a thread that reports while another one ends the program
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
