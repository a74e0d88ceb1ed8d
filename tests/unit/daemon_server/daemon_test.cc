// Runs a complete traind in its own process, without a launcher.
#include "daemon/server/daemon.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/server/control_port.h"
#include "daemon/server/supervisor_files.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/run_owner.h"
#include "lib/net/token.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/frame.h"
#include "lib/wire/link_messages.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

constexpr auto kWaitTimeout = seconds(60);  // far more than any step takes

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

bool connects(const FileDescriptor& socket, const std::string& path) {
  const sockaddr_un address = address_of(path);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Return whether somebody answers: a socket's file exists a moment before anybody listens.
bool answers(const std::string& path) { return connects(new_socket(), path); }

/// Send a message. Return false once the other end has closed the connection.
template <class Message>
bool say(const FileDescriptor& socket, const Message& message, Attempt attempt = kNoAttempt) {
  std::string bytes;
  append_frame(encode(message, attempt), bytes);
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto sent = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

class TraindProcess {
 public:
  TraindProcess() {
    char name[] = "/tmp/traind-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~TraindProcess() {
    if (pid_ > 1) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  std::string runtime_dir() const { return dir_ + "/rt"; }
  std::string spool_dir() const { return dir_ + "/spool"; }
  void start(const std::string& listen) {
    DaemonOptions options;
    options.listen = {listen};
    options.runtime_dir = runtime_dir();
    options.spool_dir = spool_dir();
    options.drain_grace = kWaitTimeout;
    options.build = "test";
    options.allow_root = true;
    options.token_file = dir_ + "/token";
    ASSERT_TRUE(create_token_file(options.token_file));
    pid_ = ::fork();
    if (pid_ == 0) ::_exit(run_daemon(options));
  }
  void wait_for_socket(const std::string& name) const {
    ASSERT_TRUE(fakes::eventually([&] { return answers(runtime_dir() + "/" + name); }))
        << "no " << name;
  }
  void signal(int number) const {
    ASSERT_GT(pid_, 1);
    ASSERT_EQ(::kill(pid_, number), 0);
  }
  /// Return its exit code, or 128 + signal.
  int wait() {
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
    const bool ended = ::poll(&ready, 1, std::chrono::milliseconds(kWaitTimeout).count()) == 1;
    ::close(pidfd);
    if (!ended) return -1;
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string dir_;
  pid_t pid_ = -1;
};

DrainRequest request(const std::string& runtime_dir) {
  return {
      .runtime_dir = runtime_dir, .grace = kWaitTimeout, .reason = "maintenance", .build = "test"};
}

TEST(Daemon, AnAddressInUseIs69) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(socket, 1), 0);
  ASSERT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  TraindProcess traind;

  traind.start(fmt::format("127.0.0.1:{}", ntohs(address.sin_port)));

  EXPECT_EQ(traind.wait(), 69);
  ::close(socket);
}

TEST(Daemon, SigtermDrainsAndLeaves) {
  TraindProcess traind;
  traind.start("127.0.0.1:0");
  traind.wait_for_socket("control.sock");

  traind.signal(SIGTERM);

  EXPECT_EQ(traind.wait(), 0);
}

TEST(Daemon, DrainReturnsWhenItHasLeft) {
  TraindProcess traind;
  traind.start("127.0.0.1:0");
  traind.wait_for_socket("control.sock");

  EXPECT_EQ(run_drain(request(traind.runtime_dir())), 0);

  EXPECT_EQ(traind.wait(), 0);
  EXPECT_EQ(run_drain(request(traind.runtime_dir())), 69);  // the socket's file still exists
}

/// A supervisor of an earlier traind, which says hello and then reads nothing.
class StoppedSupervisor {
 public:
  StoppedSupervisor(const TraindProcess& traind, const AttemptKey& key) : key_(key) {
    std::filesystem::create_directory(traind.runtime_dir());
    std::filesystem::permissions(traind.runtime_dir(), std::filesystem::perms::owner_all);
    const sockaddr_un address = address_of(
        supervisor_files(traind.runtime_dir(), traind.spool_dir(), key, ::geteuid()).socket);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
  }
  void say_hello() {
    link_ = FileDescriptor(::accept(listener_.get(), nullptr, nullptr));
    SupervisorHello hello;
    hello.run_id = key_.run_id;
    hello.attempt = key_.attempt.value;
    ASSERT_TRUE(say(link_, hello));
  }

 private:
  AttemptKey key_;
  FileDescriptor listener_ = new_socket(), link_;
};

TEST(Daemon, ALauncherWhoseSupervisorReadsNoneOfItsOrdersIsDropped) {
  const std::string key = make_owner_key(), run = "r-" + owner_digest(key);
  const Attempt attempt{0};
  TraindProcess traind;
  StoppedSupervisor supervisor(traind, {run, attempt});
  traind.start("unix:" + traind.runtime_dir() + "/launchers.sock");
  supervisor.say_hello();
  traind.wait_for_socket("launchers.sock");
  const FileDescriptor launcher = new_socket();
  ASSERT_TRUE(connects(launcher, traind.runtime_dir() + "/launchers.sock"));
  Hello hello;
  hello.role = "launcher";
  hello.instance = std::string(16, 'i');
  const OwnerProof proof = prove_owner(key, run, 1, "");
  AttachRun attach{.run_id = run, .run_name = "r", .generation = 1};
  attach.owner_public_key = proof.public_key;
  attach.owner_signature = proof.signature;
  ASSERT_TRUE(say(launcher, hello) && say(launcher, attach));
  PrepareAttempt order;
  order.storage_marker = std::string(4'000'000, 'x');

  int orders = 0;
  while (orders < 150 && say(launcher, order, attempt)) ++orders;

  EXPECT_GT(orders, 50);
  EXPECT_LT(orders, 150);
}

TEST(Daemon, DrainOfNobodyIs69) { EXPECT_EQ(run_drain(request("/nonexistent")), 69); }

}  // namespace
}  // namespace train
