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
#include "lib/net/token.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

constexpr auto kWaitTimeout = seconds(60);  // far more than any step takes

/// Return whether somebody answers: a socket's file exists a moment before anybody listens.
bool answers(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const bool connected =
      ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return connected;
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
  void start(const std::string& listen) {
    DaemonOptions options;
    options.listen = {listen};
    options.runtime_dir = runtime_dir();
    options.spool_dir = dir_ + "/spool";
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

TEST(Daemon, DrainOfNobodyIs69) { EXPECT_EQ(run_drain(request("/nonexistent")), 69); }

}  // namespace
}  // namespace train
