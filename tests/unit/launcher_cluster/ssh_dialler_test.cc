// Dials by a program "ssh" of the test's own, which plays a login.
#include "launcher/cluster/links/ssh_dialler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

using testing::HasSubstr;

class SshDiallerTest : public NetTest {
 protected:
  SshDiallerTest() : path_(std::getenv("PATH")) {
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("SSH_TEST", folder_.c_str(), 1);
  }
  ~SshDiallerTest() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("SSH_TEST");
  }

  /// The next logins run this script.
  void ssh_is(const std::string& script) const {
    const std::string file = (folder_ / "ssh").string();
    std::ofstream(file) << "#!/bin/sh\necho login >>\"$SSH_TEST/logins\"\n" << script << "\n";
    ::chmod(file.c_str(), 0700);
  }
  int logins() const {
    std::ifstream file(folder_ / "logins");
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  std::unique_ptr<SshDialler> dialler(std::shared_ptr<SshLogins> logins = {}) const {
    if (!logins) logins = std::make_shared<SshLogins>(3);
    return std::make_unique<SshDialler>(SshHost{"", "gpu-1", 0}, "ssh:gpu-1", SshConfig{}, logins);
  }
  Result<Dialled> dial(SshDialler& dialler) {
    std::optional<Result<Dialled>> result;
    run([&]() -> asio::awaitable<void> {
      auto dialling = dialler.dial(executor(), 10s);
      result.emplace(co_await std::move(dialling));
    });
    if (!result) return Error{Errc::Internal, "it did not end"};
    return std::move(*result);
  }

  static constexpr int kMany = 20;
  /// Return how many of kMany hosts were logged in to at a time, which all fail.
  int most_at_once(int tries, bool known) {
    const auto at_once = std::make_shared<SshLogins>(tries);
    std::vector<std::unique_ptr<SshDialler>> many;
    for (int i = 0; i < kMany; ++i) many.push_back(dialler(at_once));
    ssh_is("printf 'traind-dial 1 -\\n'");
    for (const auto& ssh : many)
      if (known) EXPECT_TRUE(dial(*ssh));
    // Each waits up to 2 s for one more than may come.
    ssh_is(fmt::format(
        "mkdir \"$SSH_TEST/at.$$\"; n=0; set --\n"
        "while [ $# -le {} ] && [ $n -lt 40 ]; do\n"
        "  sleep 0.05; n=$((n + 1)); set -- \"$SSH_TEST\"/at.*; echo $# >>\"$SSH_TEST/together\"\n"
        "done; rmdir \"$SSH_TEST/at.$$\"\n"
        "echo 'me@gpu-1: Permission denied (publickey).' >&2; exit 255",
        known ? kMany - 1 : SshLogins::kAtOnce));
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      const auto dial_one = [](SshDialler* ssh, asio::any_io_executor on) -> asio::awaitable<void> {
        auto dialling = ssh->dial(on, 10s);
        (void)co_await std::move(dialling);
      };
      for (const auto& ssh : many) scope.spawn("dial", dial_one(ssh.get(), executor()));
      co_await scope.join();
    });
    std::ifstream file(folder_ / "together");
    int most = 0;
    for (int count = 0; file >> count;) most = std::max(most, count);
    return most;
  }

 private:
  std::string path_;
};

TEST_F(SshDiallerTest, SkipsWhatTheShellsStartFilesPrintAndTakesNothingOfTraindsBytes) {
  ssh_is("printf 'Welcome\\nno newline yet'; printf '\\ntraind-dial 1 10.0.0.7\\n'; exec cat");
  const auto ssh = dialler();
  auto dialled = dial(*ssh);
  ASSERT_TRUE(dialled) << dialled.error().describe();
  EXPECT_EQ(dialled->reached_at, "10.0.0.7");
  run([&]() -> asio::awaitable<void> {
    dialled->connection->send(encode(Heartbeat{7}));
    auto receiving = dialled->connection->receive();
    const auto frame = co_await within(10s, std::move(receiving));
    EXPECT_TRUE(frame);
    if (frame) EXPECT_EQ(decode<Heartbeat>(*frame)->sequence, 7u);
  });
}

TEST_F(SshDiallerTest, AnAddressThatIsNoneIsIgnored) {
  ssh_is("printf 'traind-dial 1 evil words\\n'; exec cat");
  const auto ssh = dialler();
  const auto dialled = dial(*ssh);
  ASSERT_TRUE(dialled);
  EXPECT_EQ(dialled->reached_at, "");
}

TEST_F(SshDiallerTest, ANetworkThatFailsIsTriedThreeTimes) {
  ssh_is("echo 'ssh: connect to host gpu-1 port 22: Connection refused' >&2; exit 255");
  const auto ssh = dialler();
  const auto dialled = dial(*ssh);
  ASSERT_FALSE(dialled);
  EXPECT_THAT(dialled.error().message, HasSubstr("Connection refused"));
  EXPECT_EQ(logins(), 3);
  EXPECT_FALSE(ssh->failed_for_good());
  EXPECT_GE(ssh->pause(), 1s);
}

TEST_F(SshDiallerTest, ARefusalIsFinal) {
  ssh_is("echo 'me@gpu-1: Permission denied (publickey).' >&2; exit 255");
  const auto ssh = dialler();
  const auto dialled = dial(*ssh);
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Errc::Permission);
  EXPECT_EQ(logins(), 1);
  EXPECT_TRUE(ssh->failed_for_good());
}

TEST_F(SshDiallerTest, AProgramThatPrintsWithoutEndIsNoTraind) {
  ssh_is("exec yes");
  const auto ssh = dialler();
  const auto dialled = dial(*ssh);
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, Errc::Protocol);
  EXPECT_TRUE(ssh->failed_for_good());
}

TEST_F(SshDiallerTest, WithoutAProgramSshNothingIsTriedAgain) {
  ::setenv("PATH", folder_.c_str(), 1);
  const auto ssh = dialler();
  const auto dialled = dial(*ssh);
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().message, "ssh cannot be started: No such file or directory");
  EXPECT_TRUE(ssh->failed_for_good());
}

TEST_F(SshDiallerTest, OnceItHasAnsweredTheLinkDecidesWhenToDialAgain) {
  ssh_is("printf 'traind-dial 1 -\\n'; exec cat");
  const auto ssh = dialler();
  ASSERT_TRUE(dial(*ssh));
  ssh_is("echo 'ssh: connect to host gpu-1 port 22: No route to host' >&2; exit 255");
  const auto again = dial(*ssh);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::Timeout);  // silence
  EXPECT_EQ(logins(), 2);
}

TEST_F(SshDiallerTest, TheEndOfAConnectionIsToldInTheWordsOfSsh) {
  ssh_is("printf 'traind-dial 1 -\\n'; echo 'Timeout, server gpu-1 not responding.' >&2");
  const auto ssh = dialler();
  auto dialled = dial(*ssh);
  ASSERT_TRUE(dialled);
  run([&]() -> asio::awaitable<void> {
    auto receiving = dialled->connection->receive();
    const auto frame = co_await within(10s, std::move(receiving));
    EXPECT_FALSE(frame);
  });
  EXPECT_EQ(ssh->explain({Errc::Unavailable, "closed", ""}).message,
            "ssh: Timeout, server gpu-1 not responding.");
}

// NotFound alone is final.
TEST_F(SshDiallerTest, WithoutFreeDescriptorsSshIsNotMissing) {
  ssh_is("exec cat");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit few{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = limit.rlim_max};
  next.reset();
  for (int free = 0; free < 4; ++free, ++few.rlim_cur) {
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto started = SshProcess::start({"", "gpu-1", 0}, {});
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_FALSE(started) << free;
    EXPECT_NE(started.error().code, Errc::NotFound) << free << started.error().describe();
  }
}

TEST_F(SshDiallerTest, EightLogInAtATime) { EXPECT_EQ(most_at_once(3, false), SshLogins::kAtOnce); }

// Which of them is silent is told by the clock.
TEST_F(SshDiallerTest, HostsThatHaveAnsweredDoNotWaitForEachOther) {
  EXPECT_EQ(most_at_once(1, true), kMany);
}

}  // namespace
}  // namespace train
