// Runs on hosts that train-run reaches by ssh: a real sshd on each, in a network namespace, with
// keys of this test. Root only, as sshd and namespaces are here.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <map>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kHosts = 2;
constexpr const char* kApart =
    "\nscaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD, resources_per_worker: "
    "{CPU: 0}}";

class Ssh : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = Network::missing();
    if (!missing.empty()) GTEST_SKIP() << "SKIPPED: " << missing;
    if (::access("/usr/sbin/sshd", X_OK) != 0) GTEST_SKIP() << "SKIPPED: sshd is not installed";
    network_ = std::make_unique<Network>(kHosts);
    cluster_ = std::make_unique<Cluster>();
    make_keys();
    for (int host = 0; host < kHosts; ++host) start(host);
  }
  void TearDown() override {
    cluster_.reset();  // its processes keep the namespaces alive
    network_.reset();
  }

  void make_keys() {
    for (const char* key : {"key", "host_key", "other_key"})
      ASSERT_EQ(
          cluster_->start({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}).wait(),
          0);
    cluster_->write("authorized", cluster_->read(path("key.pub")));
    std::string config, known;
    for (int host = 0; host < kHosts; ++host) {
      config += fmt::format("Host h{}\n  HostName {}\n", host, network_->address(host));
      known += fmt::format("[{}]:2222 {}", network_->address(host),
                           cluster_->read(path("host_key.pub")));
    }
    known_hosts_ = known;
    cluster_->write("known_hosts", known);
    cluster_->write(
        "ssh_config",
        config + fmt::format("Host *\n  Port 2222\n  User root\n  IdentityFile {0}/key\n"
                             "  IdentitiesOnly yes\n  UserKnownHostsFile {0}/known_hosts\n"
                             "  GlobalKnownHostsFile none\n",
                             cluster_->dir()));
  }

  void start(int host) {
    cluster_->write(
        fmt::format("sshd-h{}", host),
        fmt::format("Port 2222\nListenAddress {1}\nHostKey {0}/host_key\nAuthorizedKeysFile "
                    "{0}/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                    "KbdInteractiveAuthentication no\n"
                    "PermitRootLogin prohibit-password\nSetEnv E2E_MARK={0}\n",
                    cluster_->dir(), network_->address(host)));
    StartOptions options;
    options.prefix = network_->on_node(host);
    Process& sshd =
        cluster_->start({"unshare", "--mount", "--uts", "--propagation", "private",
                         std::string(TRAIN_SOURCE_DIR) + "/tests/e2e/programs/ssh_host.sh",
                         cluster_->dir(), fmt::format("h{}", host)},
                        options);
    ASSERT_TRUE(
        wait_until([&] { return contains(sshd.err(), "listening on") || !sshd.running(); }));
    ASSERT_TRUE(sshd.running()) << sshd.err();
  }

  std::string path(const std::string& name) const { return cluster_->path(name); }

  /// A job whose nodes --ssh names. `more`: further keys of the spec.
  std::string job(const std::string& words, const std::string& more = kApart,
                  const std::string& run_config = "") const {
    return cluster_->job("job",
                         fmt::format("command: [{}]\ncluster: {{ssh: {{traind: {}, config: "
                                     "ssh_config}}}}{}",
                                     words, built("traind"), more),
                         run_config);
  }
  /// Two ranks that report `epochs` times, and wait before the epoch 4 for the file go-ATTEMPT-4.
  std::string training(int epochs, const std::string& run_config = "") const {
    return job(program("sdk_worker"),
               kApart + fmt::format("\ntrain_loop_config: {{mode: epochs, epochs: {}, "
                                    "checkpoint_every: 2, hold_file: '{}', hold_at: [4], "
                                    "hold_attempts: 9}}",
                                    epochs, path("go")),
               run_config);
  }
  Process& start_run(const std::vector<std::string>& words) const {
    StartOptions options;
    options.prefix = network_->on_hub();
    return cluster_->train_run(words, options);
  }
  /// Wait until each of both ranks has reported four times.
  bool waits() const {
    return wait_until([&] { return reports(*cluster_, "job").size() == 8; });
  }
  /// No process is left but the two sshd.
  bool nothing_left_there() const {
    return wait_until([&] {
      return cluster_->processes("traind").empty() && cluster_->workers().empty() &&
             cluster_->processes("ssh -T").empty() && cluster_->runtime_folders().empty();
    });
  }

  std::unique_ptr<Network> network_;
  std::unique_ptr<Cluster> cluster_;
  std::string known_hosts_;
};

TEST_F(Ssh, RunsOnHostsWithoutADaemonATokenOrAPort) {
  Process& run = start_run(
      {job("sh, -c, 'echo $(hostname) is $TRAINRUN_NODE_RANK of $MASTER_ADDR'"), "--ssh", "h0,h1"});

  EXPECT_EQ(run.wait(), 0) << run.err();
  for (int host = 0; host < kHosts; ++host)  // the address by which ssh came, not its own name
    EXPECT_TRUE(contains(run.out(), fmt::format("h{0} is {0} of {1}", host, network_->address(0))))
        << run.out();
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, ASpecAndTheListsOfBatchJobsNameHostsToo) {
  cluster_->write("nodes", "h0\nh0\nh1\nh1\n");
  EXPECT_EQ(start_run({job("/bin/true"), "--ssh", "@nodes"}).wait(), 0);
  StartOptions in_pbs;
  in_pbs.prefix = network_->on_hub();
  in_pbs.env["PBS_NODEFILE"] = path("nodes");
  EXPECT_EQ(cluster_->run({job("/bin/true"), "--ssh", "@job", "--name", "pbs"}, in_pbs), 0);
  const std::string spec = cluster_->job(
      "spec", fmt::format("command: [/bin/true]\ncluster: {{ssh: {{hosts: [h0, h1], traind: {}, "
                          "config: ssh_config}}}}{}",
                          built("traind"), kApart));
  EXPECT_EQ(start_run({spec}).wait(), 0);
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, AWorkerThatIsKilledIsStartedAgain) {
  Process& run =
      start_run({training(8, "  failure_config: {max_failures: 1}\n"), "--ssh", "h0,h1"});
  ASSERT_TRUE(waits()) << run.err();
  cluster_->write("go-1-4", "");
  send_signal(*cluster_->worker(1), SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(restarts(*cluster_, "job"), 1);
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, WorkersOutliveTheLauncherAndResumeFindsThem) {
  Process& run = start_run({training(8), "--ssh", "h0,h1"});
  ASSERT_TRUE(waits()) << run.err();
  const std::set<pid_t> before = cluster_->worker_pids();
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  // The ends of the pipes are the leash of ssh and dial-stdio.
  EXPECT_TRUE(wait_until([&] { return cluster_->processes("dial-stdio").empty(); }));
  EXPECT_EQ(cluster_->worker_pids(), before);

  StartOptions options;
  options.prefix = network_->on_hub();
  Process& resumed = cluster_->train_run({"resume", cluster_->run_dir("job")}, options);
  cluster_->write("go-0-4", "");
  EXPECT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(restarts(*cluster_, "job"), 0);
  expect_exactly_once(reports(*cluster_, "job"));
  EXPECT_EQ(reports(*cluster_, "job").size(), 16u);
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, ARunGoesOnWhenSshIsKilled) {
  Process& run = start_run({training(8), "--ssh", "h0,h1"});
  ASSERT_TRUE(waits()) << run.err();
  for (const Seen& ssh : cluster_->processes("ssh -T")) send_signal(ssh.pid, SIGKILL);
  cluster_->write("go-0-4", "");
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(restarts(*cluster_, "job"), 0);
  expect_exactly_once(reports(*cluster_, "job"));
  EXPECT_EQ(reports(*cluster_, "job").size(), 16u);
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, AHostThatTurnsUsAwayIsNamedWithWhatToDo) {
  const auto refusal = [&](const std::vector<std::string>& words, int code) {
    Process& run = start_run(words);
    EXPECT_EQ(run.wait(), code) << run.err();
    EXPECT_TRUE(nothing_left_there());
    return run.out();
  };
  const std::string spec = job("/bin/true");

  cluster_->write("known_hosts", "");
  std::string said = refusal({spec, "--ssh", "h0,h1"}, 77);
  EXPECT_TRUE(contains(said, "Host key verification failed")) << said;
  EXPECT_TRUE(contains(said, "ssh to h")) << said;
  cluster_->write("known_hosts", known_hosts_);

  cluster_->write("authorized", cluster_->read(path("other_key.pub")));
  said = refusal({spec, "--ssh", "h1"}, 77);
  EXPECT_TRUE(contains(said, "ssh to h1: ")) << said;
  EXPECT_TRUE(contains(said, "Permission denied (publickey)")) << said;
  EXPECT_TRUE(contains(said, fmt::format("ssh-copy-id -F {} h1)", path("ssh_config")))) << said;
  cluster_->write("authorized", cluster_->read(path("key.pub")));

  said = refusal({spec, "--ssh", "h1", "--set", "cluster.ssh.traind=/nowhere/traind"}, 69);
  EXPECT_TRUE(contains(said, "ssh to h1: there is no traind")) << said;
  EXPECT_TRUE(contains(said, "cluster.ssh.traind")) << said;

  said = refusal({spec, "--ssh", "h1", "--set", "cluster.ssh.traind=/usr/bin/yes"}, 76);
  EXPECT_TRUE(contains(said, "ssh to h1: its traind knows no dial-stdio")) << said;
}

TEST_F(Ssh, CheckFindsWhatAJobWouldStumbleOver) {
  const std::string spec = job("/bin/true");
  ::mkdir(cluster_->storage().c_str(), 0700);
  const auto check = [&](const std::vector<std::string>& more, int code) {
    std::vector<std::string> words{"check", spec, "--ssh", "h0,h1", "--seconds", "60"};
    words.insert(words.end(), more.begin(), more.end());
    Process& run = start_run(words);
    EXPECT_EQ(run.wait(), code) << run.out() << run.err();
    return run.out();
  };
  std::string said = check({}, 0);
  EXPECT_TRUE(contains(said, "h0")) << said;
  EXPECT_FALSE(contains(said, "!")) << said;
  // A clock may be behind by "-0 ms".
  EXPECT_FALSE(contains(said, " - ") || contains(said, " -\n"))
      << "no check was left out: " << said;
  EXPECT_TRUE(std::filesystem::is_empty(cluster_->storage()));

  // The host's own folder of that name is another one.
  const std::string only_here = "/var/tmp/e2e-" + cluster_->dir().substr(5);
  ::mkdir(only_here.c_str(), 0700);
  said = check({"--set", "run_config.storage_path=" + only_here}, 69);
  EXPECT_TRUE(contains(said, "h1: storage: it cannot write to " + only_here)) << said;
  ::rmdir(only_here.c_str());

  StartOptions on_h1;
  on_h1.prefix = network_->on_node(1);
  ASSERT_EQ(cluster_
                ->start({"nft",
                         "add table inet wall; add chain inet wall in { type filter hook "
                         "input priority 0; }; add rule inet wall in tcp dport != 2222 "
                         "tcp flags & (syn|ack) == syn drop"},
                        on_h1)
                .wait(),
            0);
  said = check({"--output", "json"}, 69);
  EXPECT_TRUE(contains(said, "\"what\":\"it cannot connect to h1\"")) << said;
  EXPECT_TRUE(nothing_left_there());
}

// The run of its probes has our environment, as ssh needs it, but none of what stands for options.
TEST_F(Ssh, CheckFindsTheKeyInAnAgent) {
  ::mkdir(cluster_->storage().c_str(), 0700);
  Process& agent = cluster_->start({"ssh-agent", "-D", "-a", path("agent")});
  ASSERT_TRUE(wait_until([&] { return exists(path("agent")); })) << agent.err();
  StartOptions options;
  options.env["SSH_AUTH_SOCK"] = path("agent");
  ASSERT_EQ(cluster_->start({"ssh-add", "-q", path("key")}, options).wait(), 0);
  std::filesystem::rename(path("key"), path("key-elsewhere"));
  std::string config = cluster_->read(path("ssh_config"));
  config.replace(config.find("IdentitiesOnly yes"), 18, "IdentitiesOnly no");
  cluster_->write("ssh_config", config);
  options.prefix = network_->on_hub();
  options.env["TRAINRUN_REDIRECTS"] = "3";
  Process& check = cluster_->train_run(
      {"check", job("/bin/true"), "--ssh", "h0,h1", "--seconds", "60"}, options);
  EXPECT_EQ(check.wait(), 0) << check.out() << check.err();
  EXPECT_FALSE(contains(check.out(), "!")) << check.out();
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, ARunThatIsStoppedDuringALoginLeavesNoSsh) {
  cluster_->write("stuck", fmt::format("#!/bin/bash\n"
                                       "trap '' HUP TERM\n"  // ssh's own time limit does not end it
                                       "touch {0}/begun\n"
                                       "while :; do sleep 1; done\n",
                                       cluster_->dir()));
  std::filesystem::permissions(path("stuck"), std::filesystem::perms::owner_all);
  cluster_->write("ssh_config", "Host h1\n  ProxyCommand " + path("stuck") + "\n" +
                                    cluster_->read(path("ssh_config")));
  Process& run = start_run({job("/bin/true"), "--ssh", "h1"});
  ASSERT_TRUE(wait_until([&] { return exists(path("begun")); })) << run.out() << run.err();
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.out() << run.err();
  EXPECT_TRUE(wait_until([&] { return cluster_->processes(path("stuck")).empty(); }));
}

TEST_F(Ssh, CheckThatIsStoppedLeavesNothing) {
  ::mkdir(cluster_->storage().c_str(), 0700);
  // A second login to h1, that of the probes' run, never comes to its end.
  cluster_->write("slow", fmt::format("#!/bin/bash\n"
                                      "if mkdir {0}/first 2>/dev/null; then\n"
                                      "  exec 3<>/dev/tcp/{1}/2222\n"
                                      "  cat <&3 &\n"
                                      "  exec cat >&3\n"
                                      "fi\n"
                                      "touch {0}/second\n"
                                      "exec sleep 1000\n",
                                      cluster_->dir(), network_->address(1)));
  std::filesystem::permissions(path("slow"), std::filesystem::perms::owner_all);
  cluster_->write("ssh_config", "Host h1\n  ProxyCommand " + path("slow") + "\n" +
                                    cluster_->read(path("ssh_config")));
  Process& check = start_run({"check", job("/bin/true"), "--ssh", "h0,h1", "--seconds", "60"});
  ASSERT_TRUE(wait_until([&] { return exists(path("second")); })) << check.out() << check.err();
  check.signal(SIGINT);
  EXPECT_EQ(check.wait(), 130) << check.out() << check.err();
  EXPECT_TRUE(wait_until([&] { return cluster_->processes("--driver-fd").empty(); }));
  EXPECT_TRUE(std::filesystem::is_empty(cluster_->storage()));
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, NodesShowsHostsThatNoRunUses) {
  Process& asked = start_run({"nodes", job("/bin/true"), "--ssh", "h0,h1", "--seconds", "60"});
  EXPECT_EQ(asked.wait(), 0) << asked.err();
  EXPECT_TRUE(contains(asked.out(), "h1 (ssh:h1)  free")) << asked.out();
  EXPECT_TRUE(nothing_left_there());
}

TEST_F(Ssh, ARunWaitsForAHostThatDoesNotListen) {
  Process& run = start_run({job("/bin/true"), "--ssh", "h0,h1:2223"});
  EXPECT_TRUE(wait_until([&] { return contains(run.out() + run.err(), "Connection refused"); }))
      << run.out() << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130) << run.err();
  EXPECT_TRUE(nothing_left_there());
}

}  // namespace
}  // namespace train::e2e
