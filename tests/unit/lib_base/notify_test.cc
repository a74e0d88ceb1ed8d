#include "lib/base/notify.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include "lib/base/file_descriptor.h"

namespace train {
namespace {

/// Plays systemd: a socket, and the variables that name it.
class Notify : public testing::Test {
 protected:
  Notify() {
    char name[] = "/tmp/notify-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Notify() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}) ::unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  void listen_at(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  std::string heard() const {
    std::array<char, 256> text{};
    const auto size = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }
  static std::optional<Duration> watchdog(const std::string& pid, const std::string& usec) {
    ::setenv("WATCHDOG_PID", pid.c_str(), 1);
    ::setenv("WATCHDOG_USEC", usec.c_str(), 1);
    return ServiceManager::take_from_environment().watchdog();
  }

  std::string folder_;
  FileDescriptor socket_;
};

TEST_F(Notify, TellsTheSocketThatTheEnvironmentNames) {
  for (const std::string& name : {folder_ + "/socket", "@" + folder_}) {
    listen_at(name);
    const ServiceManager manager = ServiceManager::take_from_environment();

    EXPECT_TRUE(manager.tell("READY=1\nSTATUS=2 runs\n"));

    EXPECT_EQ(heard(), "READY=1\nSTATUS=2 runs\n");
  }
}

TEST_F(Notify, LeavesNothingInTheEnvironment) {
  listen_at(folder_ + "/socket");
  watchdog(std::to_string(::getpid()), "30000000");

  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"})
    EXPECT_EQ(::getenv(name), nullptr) << name;
}

TEST_F(Notify, NeverWaitsForAManagerThatDoesNotRead) {
  listen_at(folder_ + "/socket");
  const ServiceManager manager = ServiceManager::take_from_environment();

  int taken = 0;
  while (taken < 100'000 && manager.tell("WATCHDOG=1")) ++taken;

  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 100'000);
}

TEST_F(Notify, TellsNobodyWithoutAUsableSocket) {
  for (const std::string& name : {std::string(), std::string("relative"), std::string("vsock:2:1"),
                                  folder_ + "/nobody", "/" + std::string(200, 'x')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    EXPECT_FALSE(ServiceManager::take_from_environment().tell("READY=1")) << name;
  }
  EXPECT_FALSE(ServiceManager().tell("READY=1"));
}

TEST_F(Notify, KnowsTheWatchdogsLimit) {
  const std::string own = std::to_string(::getpid());
  EXPECT_EQ(watchdog(own, "30000000"), seconds(30));
  EXPECT_EQ(watchdog("", "500"), std::chrono::microseconds(500));
  EXPECT_EQ(watchdog(own, "9223372036854775807"), std::chrono::hours(24));
  for (const char* wrong : {"", "0", "-1", "30s", "99999999999999999999"})
    EXPECT_EQ(watchdog(own, wrong), std::nullopt) << wrong;
  EXPECT_EQ(watchdog("1", "30000000"), std::nullopt);
}

}  // namespace
}  // namespace train
