// The machine of a detached run's controller dies, and another node takes the controller over. Each
// node is a network namespace; the controller runs under n0's traind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;
constexpr const char* kUser = "games";  // every Debian has it

class Failover : public ThreeNodes {
 protected:
  /// Return a job of `workers` workers, that wait before the sixth epoch. With orphan_timeout 24s,
  /// the first node takes over after 6 s.
  std::string training(int workers, const std::string& failure_config = "",
                       const std::string& loop = "") const {
    return cluster->job(
        "job",
        fmt::format(
            "command: [{}]\nscaling_config: {{num_workers: {}}}\n"
            "train_loop_config: {{mode: epochs, epochs: {}, on_stop: true, hold_file: '{}', "
            "hold_at: [6]{}}}\n",
            program("sdk_worker"), workers, kEpochs, cluster->path("go"), loop),
        fmt::format("  failure_config: {{max_failures: 3, stop_grace: 1s, {}}}\n",
                    failure_config.empty() ? "orphan_timeout: 24s" : failure_config));
  }
  /// Detach the run under n0's traind, and wait for the sixth epoch. `hosts`: its nodes.
  void detach(const std::string& job, const std::string& hosts,
              const std::vector<std::string>& as = {}) {
    StartOptions on_first;
    on_first.prefix = network->on_node(0);
    on_first.prefix.insert(on_first.prefix.end(), as.begin(), as.end());
    Process& run = cluster->train_run({job, "--detach", "--runtime-dir", cluster->path("rt-n0"),
                                       "--hosts", hosts, "--token-file", cluster->path("token")},
                                      on_first);
    ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
    ASSERT_TRUE(wait_until([&] { return cluster->checkpoints("job").size() >= 6; })) << log();
  }
  std::string on_the_others() const { return nodes->endpoint(1) + "," + nodes->endpoint(2); }
  std::string log() const { return cluster->read(cluster->run_dir("job") + "/launcher.log"); }
  bool said(const std::string& text) const {
    return wait_until([&] { return contains(log(), text); });
  }
  /// Wait until n1 and n2 stand ready.
  bool ready() const {
    return said("takes over the controller") && wait_until([&] {
             return contains(note(), R"("ready":["n1","n2"])") ||
                    contains(note(), R"("ready":["n2","n1"])");
           });
  }
  /// Wait for a controller on another node than `node`; return which one.
  int next_controller(int node) const {
    int found = -1;
    EXPECT_TRUE(wait_until([&] {
      for (int other = 0; other < 3 && found < 0; ++other)
        if (other != node && controller_on(other)) found = other;
      return found >= 0;
    })) << log();
    return found;
  }
  /// Return the newest controller's note; "": there is none.
  std::string note() const {
    std::string newest;
    for (int generation = 1; generation < 9; ++generation) {
      const std::string path = fmt::format("{}/.failover-{}", cluster->run_dir("job"), generation);
      if (exists(path)) newest = cluster->read(path);
    }
    return newest;
  }
  std::optional<pid_t> controller_on(int node) const {
    for (const Seen& seen : cluster->processes("--detached-controller"))
      if (network->holds(node, seen.pid) && contains(holder(), fmt::format(":{},", seen.pid)))
        return seen.pid;
    return std::nullopt;
  }
  std::string holder() const { return cluster->read(cluster->run_dir("job") + "/.lock"); }
  void go_on(int attempt = 0) const { cluster->write(fmt::format("go-{}-6", attempt), ""); }
  bool ended() const {
    return wait_until([&] { return exists(cluster->run_dir("job") + "/exit.json"); });
  }
  void expect_no_restart(int workers) const {
    EXPECT_TRUE(ended()) << log();
    EXPECT_EQ(text_of(cluster->exit_json("job"), "code"), "0") << log();
    EXPECT_EQ(restarts(*cluster, "job"), 0);
    expect_one_attempt(*cluster, "job", workers, kEpochs);
    EXPECT_TRUE(wait_until([&] { return cluster->processes("--detached-controller").empty(); }));
    EXPECT_FALSE(exists(cluster->run_dir("job") + "/.detached"));
    EXPECT_EQ(note(), "");
  }
};

TEST_F(Failover, TheWorkersGoOnUnderAControllerOnAnotherNode) {
  nodes->start_all();
  detach(training(4), on_the_others());
  ASSERT_TRUE(ready()) << log();
  ASSERT_TRUE(controller_on(0)) << holder();
  const std::set<pid_t> workers = cluster->worker_pids();
  EXPECT_EQ(workers.size(), 4u);

  nodes->power_off(0);
  EXPECT_GT(next_controller(0), 0);
  ASSERT_TRUE(said("still running on")) << log();
  EXPECT_EQ(cluster->worker_pids(), workers);

  go_on();
  expect_no_restart(4);
}

// It takes the workers of the dead machine with it.
TEST_F(Failover, OfWorkersThatDieWithTheControllerTheGroupRestarts) {
  nodes->start_all();
  detach(training(4), nodes->hosts(3));
  ASSERT_TRUE(ready()) << log();
  go_on(1);

  nodes->power_off(0);

  EXPECT_TRUE(ended()) << log();
  EXPECT_EQ(text_of(cluster->exit_json("job"), "code"), "0") << log();
  EXPECT_EQ(restarts(*cluster, "job"), 1);
  expect_exactly_once(reports(*cluster, "job"));
}

TEST_F(Failover, ANodeThatHasLostAllOthersDoesNothing) {
  nodes->start_all();
  detach(training(4, "orphan_timeout: 24s, node_suspect_after: 1s"), on_the_others());
  ASSERT_TRUE(ready()) << log();
  const std::string before = holder();

  network->cut(1);
  ASSERT_TRUE(wait_until([&] {
    return contains(nodes->daemon(1).err(), "of the 2 nodes that the run's controller") ||
           contains(nodes->daemon(1).err(), "of the 1 nodes that the run's controller");
  })) << nodes->daemon(1).err();
  network->mend(1);
  EXPECT_EQ(holder(), before);

  go_on();
  go_on(1);
  EXPECT_TRUE(ended()) << log();
  EXPECT_EQ(text_of(cluster->exit_json("job"), "code"), "0") << log();
  EXPECT_EQ(holder(), before) << "the first controller ended the run";
}

// Two machines die one after the other; the first one is back by then.
TEST_F(Failover, TheNextControllerHasNodesThatStandReadyToo) {
  nodes->start_all();
  detach(training(2, "orphan_timeout: 24s, node_dead_after: 5s", ", hold_attempts: 9"),
         nodes->hosts(3));
  ASSERT_TRUE(ready()) << log();
  nodes->power_off(0);
  const int second = next_controller(0);
  ASSERT_GT(second, 0);
  nodes->power_on(0);
  ASSERT_TRUE(wait_until([&] { return contains(note(), R"("n0")"); })) << note() << log();

  nodes->power_off(second);
  const int third = next_controller(second);
  ASSERT_GE(third, 0);

  for (int attempt = 0; attempt < 4; ++attempt) go_on(attempt);
  EXPECT_TRUE(ended()) << log();
  EXPECT_EQ(text_of(cluster->exit_json("job"), "code"), "0") << log();
  expect_exactly_once(reports(*cluster, "job"));
}

TEST_F(Failover, AControllerThatHasTakenOverIsStartedAgainWhenItIsKilled) {
  nodes->start_all();
  detach(training(4), on_the_others());
  ASSERT_TRUE(ready()) << log();
  const std::set<pid_t> workers = cluster->worker_pids();
  nodes->power_off(0);
  const int node = next_controller(0);
  ASSERT_GT(node, 0);
  ASSERT_TRUE(said("still running on")) << log();
  const pid_t second = controller_on(node).value();

  send_signal(second, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    const auto third = controller_on(node);
    return third && *third != second;
  })) << log();

  go_on();
  expect_no_restart(4);
}

TEST_F(Failover, ARunThatIsStoppedIsNotTakenUpAgain) {
  nodes->start_all();
  detach(training(4, "orphan_timeout: 4s"), on_the_others());  // they take over after 1 and 2 s
  ASSERT_TRUE(ready()) << log();
  Process& stop = cluster->train_run({"stop", cluster->run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(stop.out(), "asked job"); })) << stop.out();
  go_on();
  EXPECT_EQ(stop.wait(), 0) << stop.err();
  const std::string last = holder();

  const auto started = [&] {
    return contains(nodes->daemon(1).err(), "another one is started") ||
           contains(nodes->daemon(2).err(), "another one is started");
  };
  EXPECT_FALSE(wait_until(started, Seconds(4)));
  EXPECT_EQ(holder(), last);
  EXPECT_EQ(note(), "");
}

TEST_F(Failover, StatusAndStopFindTheControllerWhereItIs) {
  nodes->start_all();
  detach(training(4), on_the_others());
  ASSERT_TRUE(ready()) << log();
  nodes->power_off(0);
  Process& status = cluster->train_run({"status", cluster->run_dir("job")});
  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), " has not taken over yet")) << status.out();
  Process& follow = cluster->train_run({"attach", cluster->run_dir("job")});  // it waits

  ASSERT_GT(next_controller(0), 0);
  go_on();
  EXPECT_EQ(cluster->run({"stop", cluster->run_dir("job")}), 0);

  EXPECT_TRUE(follow.wait().has_value());
  EXPECT_TRUE(ended()) << log();
  EXPECT_EQ(restarts(*cluster, "job"), 0);
}

TEST_F(Failover, WithoutNodesThatMayTakeOverNobodyDoes) {
  nodes->start_all();
  detach(training(4, "orphan_timeout: 24s, failover_nodes: 0"), on_the_others());
  EXPECT_EQ(note(), "");
  nodes->power_off(0);
  Process& status = cluster->train_run({"status", cluster->run_dir("job")});
  EXPECT_EQ(status.wait(), 0);
  EXPECT_TRUE(contains(status.out(), "no traind has started another yet")) << status.out();

  StartOptions on_second;
  on_second.prefix = network->on_node(1);
  go_on();
  Process& resumed = cluster->train_run({"resume", cluster->run_dir("job")}, on_second);
  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_EQ(restarts(*cluster, "job"), 0);
}

// A root traind with --run-as takes over as the user of the run's workers.
TEST_F(Failover, TheControllerIsTheUsersWhereTraindIsRoots) {
  const passwd* user = ::getpwnam(kUser);
  if (user == nullptr) GTEST_SKIP() << "this machine has no user " << kUser;
  ::chmod(cluster->dir().c_str(), 0711);
  const std::string token = cluster->write("users-token", cluster->read(cluster->path("token")));
  ::chmod(token.c_str(), 0600);
  ASSERT_EQ(::chown(token.c_str(), user->pw_uid, user->pw_gid), 0);
  std::filesystem::create_directories(cluster->storage());
  ASSERT_EQ(::chown(cluster->storage().c_str(), user->pw_uid, user->pw_gid), 0);
  const std::vector<std::string> as{"setpriv",
                                    "--reuid",
                                    std::to_string(user->pw_uid),
                                    "--regid",
                                    std::to_string(user->pw_gid),
                                    "--clear-groups",
                                    "--"};
  for (int node = 1; node < 3; ++node)
    nodes->start(node, {"--resource", "CPU=2", "--run-as", kUser});
  StartOptions on_first;
  on_first.prefix = network->on_node(0);
  on_first.prefix.insert(on_first.prefix.end(), as.begin(), as.end());
  on_first.env["XDG_RUNTIME_DIR"] = "";
  const std::string job = training(4);
  ::chmod(job.c_str(), 0644);
  // The user has no traind on n0: a private one runs the controller.
  Process& run = cluster->train_run(
      {job, "--detach", "--hosts", on_the_others(), "--token-file", token}, on_first);
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  ASSERT_TRUE(ready()) << log();
  const std::set<pid_t> workers = cluster->worker_pids();

  network->cut(0);
  for (const Seen& seen : cluster->processes())
    if (network->holds(0, seen.pid)) send_signal(seen.pid, SIGKILL);
  const int node = next_controller(0);
  ASSERT_GT(node, 0);
  struct stat process {};
  ASSERT_EQ(::stat(fmt::format("/proc/{}", controller_on(node).value()).c_str(), &process), 0);
  EXPECT_EQ(process.st_uid, user->pw_uid);
  EXPECT_EQ(read_file(fmt::format("/proc/{}/oom_score_adj", controller_on(node).value())), "0\n");

  EXPECT_EQ(cluster->worker_pids(), workers);
  go_on();
  EXPECT_TRUE(ended()) << log();
  EXPECT_EQ(text_of(cluster->exit_json("job"), "code"), "0") << log();
  EXPECT_EQ(restarts(*cluster, "job"), 0);
}

class FailoverWithoutStorage : public NoStorage {};

TEST_F(FailoverWithoutStorage, TheUserIsToldThatNobodyCanTakeOver) {
  nodes->start(0);
  start_without_storage(1);
  start_without_storage(2);
  StartOptions on_first;
  on_first.prefix = network->on_node(0);
  Process& run = cluster->train_run(
      {job("hold_at: [2]", ""), "--detach", "--runtime-dir", cluster->path("rt-n0"), "--hosts",
       nodes->endpoint(1) + "," + nodes->endpoint(2), "--token-file", cluster->path("token")},
      on_first);
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  const auto log = [&] { return cluster->read(cluster->run_dir("job") + "/launcher.log"); };
  EXPECT_TRUE(wait_until([&] {
    return contains(log(),
                    "if this machine dies, no other node can take over the controller: n1: ");
  })) << log();
  go_on(0, 2);
  EXPECT_TRUE(wait_until([&] { return exists(cluster->run_dir("job") + "/exit.json"); })) << log();
}

}  // namespace
}  // namespace train::e2e
