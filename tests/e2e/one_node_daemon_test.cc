// How a traind leaves: on which signals, and what happens to its workers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

class OneDaemon : public testing::Test {
 protected:
  /// Start a traind on its own port, with stdin from this file if one is given.
  Process& daemon(const std::string& stdin_file = "", const std::vector<std::string>& more = {}) {
    EXPECT_EQ(cluster.start({built("traind"), "token", token_}).wait(), 0);
    std::vector<std::string> arguments{"--listen",    "127.0.0.1:0",         "--token-file",
                                       token_,        "--runtime-dir",       cluster.path("own"),
                                       "--spool-dir", cluster.path("spool"), "--allow-root"};
    arguments.insert(arguments.end(), more.begin(), more.end());
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

  /// Start a run there with one worker that follows `words` and then hangs. Wait for it.
  Process& run_on(const Process& daemon, const std::string& words) {
    const std::string job =
        cluster.job("job", "command: [" + program("plain_worker") + ", " + words + ", touch, " +
                               cluster.path("there") + ", hang]\n" +
                               "scaling_config: {resources_per_worker: {CPU: 0}}");
    Process& run = cluster.train_run({job, "--hosts", address_of(daemon), "--token-file", token_});
    EXPECT_TRUE(wait_until([&] { return exists(cluster.path("there")); }))
        << run.out() << run.err();
    return run;
  }

  Cluster cluster;
  std::string token_ = cluster.path("token");
};

// Slurm sends two at its time limit, 5 to 40 ms apart.
TEST_F(OneDaemon, TwoTermsAtOnceAreOne) {
  Process& daemon = this->daemon();
  run_on(daemon, "ignore-term");

  daemon.signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=draining"); })) << daemon.err();
  daemon.signal(SIGTERM);

  // If traind counted two signals, it would leave its workers behind.
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(contains(daemon.err(), "drained=true")) << daemon.err();
  EXPECT_FALSE(contains(daemon.err(), "workers keep running")) << daemon.err();
}

TEST_F(OneDaemon, ATermThatComesAgainALittleLaterEscalates) {
  Process& daemon = this->daemon();
  Process& run = run_on(daemon, "ignore-term");
  run.signal(SIGSTOP);  // otherwise it would stop the worker, and traind would drain the node
  const std::vector<Seen> workers = cluster.workers();
  ASSERT_EQ(workers.size(), 1u);

  ASSERT_TRUE(wait_until([&] {
    daemon.signal(SIGTERM);
    return !daemon.running();
  })) << daemon.err();

  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(contains(daemon.err(), "workers keep running")) << daemon.err();
  EXPECT_EQ(cluster.worker_pids(), std::set<pid_t>{workers[0].pid});
  run.signal(SIGCONT);
}

// The launcher neither moves its work away nor takes what the workers left.
TEST_F(OneDaemon, StopsTheWorkersItselfWhereTheirLauncherDoesNotInTime) {
  Process& daemon = this->daemon("", {"--drain-grace", "1s"});
  Process& run = run_on(daemon, "on-term-exit, 0");
  run.signal(SIGSTOP);

  daemon.signal(SIGTERM);

  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(
      contains(daemon.err(), "the drain grace period is over: stopping the remaining workers"))
      << daemon.err();
  EXPECT_TRUE(contains(daemon.err(), "drained=true")) << daemon.err();
  EXPECT_TRUE(cluster.workers().empty());
  EXPECT_TRUE(cluster.processes(" supervise --run ").empty());
  run.signal(SIGCONT);
}

TEST_F(OneDaemon, LeavesWithTheStdinThatItWasGiven) {
  const std::string leash = cluster.path("leash");
  ASSERT_EQ(::mkfifo(leash.c_str(), 0600), 0);
  const int end = ::open(leash.c_str(), O_RDWR | O_CLOEXEC);  // does not wait for the other end
  Process& daemon = this->daemon(leash);
  address_of(daemon);
  ASSERT_EQ(::write(end, "hello\n", 6), 6);
  EXPECT_TRUE(daemon.running());

  ::close(end);

  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_TRUE(contains(daemon.err(), "why=\"stdin was closed\"")) << daemon.err();
}

// $XDG_RUNTIME_DIR is memory on most machines, and checkpoints on their way to a store are large.
TEST(PrivateDaemon, KeepsWhatMayBeLargeOutOfTheRuntimeFolder) {
  Cluster cluster;
  Process& run = start_waiting_worker(cluster);

  std::string spools;
  for (const auto& file : std::filesystem::recursive_directory_iterator(cluster.dir())) {
    if (contains(file.path().filename().string(), "rank-0000.out"))
      spools += file.path().string() + "\n";
  }

  EXPECT_TRUE(contains(spools, cluster.path("tmp") + "/trainrun_")) << spools;
  EXPECT_FALSE(contains(spools, cluster.runtime_dir())) << spools;
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(wait_until([&] { return cluster.runtime_folders().empty(); }))
      << ::testing::PrintToString(cluster.runtime_folders());
}

// Something, say a cleaner of old files, has removed the mark.
TEST(PrivateDaemon, EndsItsRunByNameWhereItCannotBeStartedAgain) {
  Cluster cluster;
  Process& run = start_waiting_worker(cluster);
  for (const std::string& folder : cluster.runtime_folders())
    std::filesystem::remove(folder + "/.made-by-trainrun");

  send_signal(cluster.processes("traind --private").at(0).pid, SIGKILL);

  EXPECT_EQ(run.wait(), 1) << run.out();
  EXPECT_TRUE(contains(run.out(), "the traind of this run cannot start: ")) << run.out();
  EXPECT_TRUE(contains(run.out(), "lacks the mark")) << run.out();
}

}  // namespace
}  // namespace train::e2e
