// How a traind leaves: at which of its signals, and with whom.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class OneDaemon : public testing::Test {
 protected:
  /// Listens on a port of its own; with stdin from this file where one is given.
  Process& daemon(const std::string& stdin_file = "") {
    EXPECT_EQ(cluster.start({built("traind"), "token", token_}).wait(), 0);
    std::vector<std::string> arguments{"--listen",    "127.0.0.1:0",         "--token-file",
                                       token_,        "--runtime-dir",       cluster.path("own"),
                                       "--spool-dir", cluster.path("spool"), "--allow-root"};
    StartOptions options;
    if (!stdin_file.empty()) {
      options.prefix = {"sh", "-c", "exec \"$@\" < " + stdin_file, "sh"};
      arguments.emplace_back("--leave-with-stdin");
    }
    return cluster.traind(arguments, options);
  }
  static std::string address_of(const Process& daemon) {
    const std::string said = "on=127.0.0.1:";
    EXPECT_TRUE(wait_until([&] { return contains(daemon.err(), said); })) << daemon.err();
    const auto port = std::stoi(daemon.err().substr(daemon.err().find(said) + said.size()));
    return "127.0.0.1:" + std::to_string(port);
  }

  Cluster cluster;
  std::string token_ = cluster.path("token");
};

// As Slurm does at the time limit, 5 to 40 ms apart.
TEST_F(OneDaemon, TwoTermsAtOnceAreOne) {
  Process& daemon = this->daemon();
  const std::string job =
      cluster.job("job", "command: [" + program("plain_worker") + ", ignore-term, touch, " +
                             cluster.path("deaf") + ", hang]\n" +
                             "scaling_config: {resources_per_worker: {CPU: 0}}");
  cluster.train_run({job, "--hosts", address_of(daemon), "--token-file", token_});
  ASSERT_TRUE(wait_until([&] { return exists(cluster.path("deaf")); }));

  daemon.signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=draining"); })) << daemon.err();
  daemon.signal(SIGTERM);

  // One that had counted twice would leave its workers behind.
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(contains(daemon.err(), "drained=true")) << daemon.err();
  EXPECT_FALSE(contains(daemon.err(), "workers go on")) << daemon.err();
}

TEST_F(OneDaemon, LeavesWithTheStdinThatItWasGiven) {
  const std::string leash = cluster.path("leash");
  ASSERT_EQ(::mkfifo(leash.c_str(), 0600), 0);
  const int end = ::open(leash.c_str(), O_RDWR | O_CLOEXEC);  // so that nobody waits to open it
  Process& daemon = this->daemon(leash);
  address_of(daemon);
  ASSERT_EQ(::write(end, "hello\n", 6), 6);
  EXPECT_TRUE(daemon.running());

  ::close(end);

  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(contains(daemon.err(), "why=\"stdin was closed\"")) << daemon.err();
}

}  // namespace
}  // namespace train::e2e
