// traind as a service: what it tells systemd, and who asks for its health.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Plays systemd: the socket of sd_notify(3).
class Service : public ::testing::Test {
 protected:
  Service() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Service() override { ::close(socket_); }

  Process& start_traind(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{
        "--allow-root",        "--health", "127.0.0.1:0",   "--listen",           listen_,
        "--resource",          "CPU=4",    "--runtime-dir", cluster_.path("own"), "--spool-dir",
        cluster_.path("spool")};
    words.insert(words.end(), more.begin(), more.end());
    return cluster_.traind(words, {.env = {{"NOTIFY_SOCKET", path_}, {"WATCHDOG_USEC", "300000"}}});
  }
  /// Receive what traind tells until it tells `wanted`; return whether it did.
  bool hears(const std::string& wanted) {
    return wait_until([&] {
      std::array<char, 1024> text{};
      for (ssize_t size = 0;
           (size = ::recv(socket_, text.data(), text.size(), MSG_DONTWAIT)) > 0;) {
        heard_ += std::string(text.data(), static_cast<std::size_t>(size)) + "\n";
      }
      const auto found = heard_.find(wanted);
      if (found == std::string::npos) return false;
      heard_.erase(0, found + wanted.size());
      return true;
    });
  }
  std::string ask(const Process& traind, const std::string& path,
                  const std::vector<std::string>& more = {}) {
    const std::string said = "msg=health listen=";
    EXPECT_TRUE(wait_until([&] { return contains(traind.err(), said); })) << traind.err();
    const std::string rest = traind.err().substr(traind.err().find(said) + said.size());
    std::vector<std::string> words{"curl", "-s", "-w", "%{http_code}",
                                   "http://" + rest.substr(0, rest.find('\n')) + path};
    words.insert(words.end(), more.begin(), more.end());
    Process& curl = cluster_.start(words);
    curl.wait();
    return curl.out();
  }

  Cluster cluster_;
  const std::string path_ = cluster_.path("notify"), listen_ = "unix:" + cluster_.path("sock");
  int socket_ = -1;
  std::string heard_;
};

TEST_F(Service, IsReadyOnceItListensThenFeedsTheWatchdogAndSaysThatItStops) {
  Process& traind = start_traind();

  ASSERT_TRUE(hears("READY=1")) << traind.err();
  EXPECT_EQ(::access(cluster_.path("sock").c_str(), F_OK), 0);
  EXPECT_TRUE(hears("STATUS=0 runs, 0 supervisors"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(hears("WATCHDOG=1")) << i;

  traind.signal(SIGINT);
  EXPECT_TRUE(hears("STOPPING=1"));
  EXPECT_EQ(traind.wait(), 0);
}

// A supervisor that is stopped does not answer the next traind, which waits for it.
TEST_F(Service, IsNotReadyBeforeItHasFoundItsSupervisors) {
  Process& first = start_traind();
  ASSERT_TRUE(hears("READY=1"));
  const std::string job =
      cluster_.job("job", "command: [" + program("plain_worker") +
                              ", hang]\nscaling_config: {num_workers: 1}\ncluster: {nodes: ['" +
                              listen_ + "']}");
  Process& run = cluster_.train_run({job});
  ASSERT_TRUE(wait_until([&] { return cluster_.workers().size() == 1; })) << run.err();
  const auto worker = cluster_.worker_pids();
  const pid_t supervisor = cluster_.workers().at(0).parent;
  send_signal(supervisor, SIGSTOP);
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_TRUE(hears("STOPPING=1"));

  Process& second = start_traind();
  EXPECT_EQ(ask(second, "/-/ready"), "looking for supervisors\n503");
  EXPECT_EQ(ask(second, "/-/healthy"), "ok\n200");
  ASSERT_TRUE(hears("STATUS=looking for the supervisors of an earlier traind"));
  EXPECT_FALSE(contains(heard_, "READY=1"));

  send_signal(supervisor, SIGCONT);
  EXPECT_TRUE(hears("READY=1")) << second.err();
  EXPECT_EQ(ask(second, "/-/ready"), "ready\n200");
  EXPECT_EQ(cluster_.worker_pids(), worker);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST_F(Service, ItsHealthPortTellsNothingElse) {
  Process& traind = start_traind({"--drain-grace", "60s"});
  EXPECT_EQ(ask(traind, "/-/healthy"), "ok\n200");
  EXPECT_EQ(ask(traind, "/-/ready"), "ready\n200");
  for (const char* path : {"/", "/-", "/-/ready/x", "/metrics", "/healthz"})
    EXPECT_EQ(ask(traind, path), "there is /-/healthy and /-/ready\n404") << path;
  EXPECT_EQ(ask(traind, "/-/ready", {"-X", "POST"}), "use GET\n405");
  EXPECT_TRUE(ask(traind, "/-/ready", {"-H", "X: " + std::string(2000, 'x')}).ends_with("431"));
  EXPECT_TRUE(ask(traind, "/-/ready", {"-d", "x"}).ends_with("413"));
}

}  // namespace
}  // namespace train::e2e
