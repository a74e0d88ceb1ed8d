// The same command on each of three nodes, in network namespaces: train-run --member.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <map>

#include "tests/e2e/dns_server.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr const char* kApart = "{num_workers: 3, placement_strategy: STRICT_SPREAD}";

class Members : public ThreeNodes {
 protected:
  void SetUp() override {
    ThreeNodes::SetUp();
    if (IsSkipped()) return;
    std::string hosts;
    for (int node = 0; node < 3; ++node) hosts += network->address(node) + "\n";
    cluster->write("hosts", hosts);
  }
  /// Three workers, each on a node, which do what the words say.
  std::string words(const std::string& text, const std::string& run_config = "") const {
    return cluster->job("job", fmt::format("command: [{}]\nscaling_config: {}\n", text, kApart),
                        run_config);
  }
  /// Workers that report some epochs, and wait before epoch 4 until they are to stop, or for
  /// go_on().
  std::string training(const std::string& workers, const std::string& failure_config = "") const {
    return cluster->job(
        "job",
        fmt::format("command: [{}]\n"
                    "scaling_config: {{num_workers: {}, placement_strategy: STRICT_SPREAD}}\n"
                    "train_loop_config: {{mode: epochs, epochs: 8, hold_file: '{}', hold_at: [4], "
                    "checkpoint_every: 2, on_stop: true, hold_until_stop: true}}\n",
                    program("sdk_worker"), workers, cluster->path("go")),
        fmt::format("  failure_config: {{node_suspect_after: 1s, node_dead_after: 3s{}}}\n",
                    failure_config));
  }
  void go_on() const { cluster->write("go-0-4", ""); }
  bool held(std::size_t workers) const {
    return wait_until([&] { return reports(*cluster, "job").size() >= 4 * workers; });
  }

  /// Start the member on a node. `prefix`: words before its command.
  Process& start(int node, std::vector<std::string> arguments,
                 std::map<std::string, std::string> env = {},
                 const std::vector<std::string>& prefix = {}) {
    StartOptions options;
    options.prefix = network->on_node(node);
    options.prefix.insert(options.prefix.end(), prefix.begin(), prefix.end());
    options.env = std::move(env);
    options.env["TRAINRUN_TOKEN_FILE"] = cluster->path("token");
    options.env["TRAINRUN_TRAIND_OPTIONS"] = fmt::format("--node-name n{} --resource CPU=2", node);
    return *(members[node] = &cluster->train_run(arguments, options));
  }
  /// Start all, the one that launches last.
  void start_all(const std::string& job) {
    for (const int node : {2, 1, 0})
      start(node, {"--member", "hosts:" + cluster->path("hosts"), job});
  }
  void expect_all_end_with(int code) {
    for (const auto& [node, member] : members)
      EXPECT_EQ(member->wait(), code)
          << "member " << node << ": " << member->out() << member->err();
  }
  std::string said() const {
    std::string all;
    for (const auto& [node, member] : members)
      all += fmt::format("--- member {}\n{}{}", node, member->out(), member->err());
    return all;
  }

  std::map<int, Process*> members;
};

TEST_F(Members, OneCommandOnEachNodeIsARun) {
  start_all(words("sh, -c, 'echo rank $RANK is on node $TRAINRUN_NODE_RANK of $MASTER_ADDR'"));

  expect_all_end_with(0);
  for (int node = 0; node < 3; ++node)
    EXPECT_TRUE(contains(members[0]->out(),
                         fmt::format("rank {0} is on node {0} of {1}", node, network->address(0))))
        << members[0]->out();
  EXPECT_EQ(members[1]->out(), "");
  EXPECT_TRUE(contains(members[1]->err(), "train-run: member 1: its traind listens on port 7070"))
      << members[1]->err();
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, AllEndWithTheExitCodeOfTheRun) {
  start_all(words("sh, -c, 'exit 7'"));
  expect_all_end_with(7);
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, AWorkerThatIsKilledIsStartedAgain) {
  start_all(training("3", ", max_failures: 1"));
  ASSERT_TRUE(held(3)) << said();
  send_signal(*cluster->worker(1), SIGKILL);

  expect_all_end_with(0);
  EXPECT_EQ(restarts(*cluster, "job"), 1);
  expect_exactly_once(reports(*cluster, "job"));
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, ATraindThatIsKilledIsStartedAgainAndItsWorkersGoOn) {
  start_all(training("3"));
  ASSERT_TRUE(held(3)) << said();
  const std::set<pid_t> before = cluster->worker_pids();
  for (const Seen& seen : cluster->processes("--end-with-run"))
    if (network->holds(1, seen.pid)) send_signal(seen.pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    return contains(members[1]->err(), "its traind was killed by SIGKILL: it is started again");
  })) << said();
  EXPECT_EQ(cluster->worker_pids(), before);
  go_on();

  expect_all_end_with(0);
  EXPECT_EQ(restarts(*cluster, "job"), 0);
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, AnElasticRunGoesOnWithoutAMemberThatIsDrained) {
  start_all(training("{min: 1, max: 3}"));
  ASSERT_TRUE(held(3)) << said();

  members[1]->signal(SIGTERM);

  EXPECT_EQ(members[1]->wait(), 75) << said();
  members.erase(1);
  expect_all_end_with(0);
  EXPECT_TRUE(contains(said(), "node n1 is being drained: SIGTERM")) << said();
  expect_exactly_once(reports(*cluster, "job"));
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, ASignalToTheOneThatLaunchesStopsTheRun) {
  start_all(training("3"));
  ASSERT_TRUE(held(3)) << said();

  members[0]->signal(SIGTERM);

  expect_all_end_with(75);
  EXPECT_FALSE(cluster->checkpoints("job").empty());
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, WhenTheNodeOfTheLauncherDiesTheOthersEndAndSayWhy) {
  start_all(training("3", ", orphan_timeout: 4s"));
  ASSERT_TRUE(held(3)) << said();

  network->cut(0);
  for (const Seen& seen : cluster->processes())
    if (network->holds(0, seen.pid)) send_signal(seen.pid, SIGKILL);

  EXPECT_EQ(members[0]->wait(), 137);
  for (const int node : {1, 2}) {
    EXPECT_EQ(members[node]->wait(), 69) << said();
    EXPECT_TRUE(contains(members[node]->err(),
                         "the launcher of the run job died, and no other one came within 4.0 s"))
        << said();
  }
  // A node that is killed as a whole leaves its folders.
  EXPECT_TRUE(wait_until([&] { return cluster->processes().empty(); }));
}

TEST_F(Members, ALauncherThatDiesIsTold) {
  start_all(training("3", ", orphan_timeout: 2s"));
  ASSERT_TRUE(held(3)) << said();
  for (const Seen& seen : cluster->processes("--with-parent")) send_signal(seen.pid, SIGKILL);

  expect_all_end_with(69);
  EXPECT_TRUE(contains(members[0]->err(), "the launcher of this run was killed by SIGKILL"))
      << said();
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, AMemberThatDiesTakesItsLauncherAndItsTraindWithIt) {
  start_all(training("3"));
  ASSERT_TRUE(held(3)) << said();

  members[0]->signal(SIGKILL);

  EXPECT_EQ(members[0]->wait(), 137);
  EXPECT_EQ(members[1]->wait(), 75) << said();
  EXPECT_EQ(members[2]->wait(), 75) << said();
}

TEST_F(Members, ARunThatCannotBeginEndsForAll) {
  start_all(words("true"));
  expect_all_end_with(0);
  start_all(words("true"));
  expect_all_end_with(73);  // it has finished
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, OneThatNobodyLaunchesEndsToo) {
  start(1, {"--member", "hosts:" + cluster->path("hosts"),
            words("true", "  failure_config: {start_timeout: 2s}\n")});
  expect_all_end_with(69);
  EXPECT_TRUE(contains(said(), "no launcher has come within 2.0 s")) << said();
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, WhatIsWrongIsSaidByEachMember) {
  const std::string job = words("true");
  const auto refusal = [&](std::vector<std::string> arguments, int code,
                           std::map<std::string, std::string> env = {}) {
    Process& member = start(0, std::move(arguments), std::move(env));
    EXPECT_EQ(member.wait(), code) << member.err();
    return member.err();
  };
  EXPECT_TRUE(contains(refusal({"--member", "mnist:7070", job}, 2),
                       "write dns:NAME[:PORT], hosts:FILE or slurm"));
  EXPECT_TRUE(contains(refusal({"--member", "dns:mnist", job}, 2), "JOB_COMPLETION_INDEX"));
  EXPECT_TRUE(contains(refusal({"--member", "slurm", job}, 2), "srun --ntasks-per-node=1"));
  EXPECT_TRUE(
      contains(refusal({"--member", "hosts:" + cluster->write("others", "10.83.0.99\n"), job}, 2),
               "this machine is none of the 1 hosts"));
  EXPECT_TRUE(
      contains(refusal({"--member", "hosts:hosts", "--hosts", "a:1", job}, 2), "leave them out"));
  EXPECT_TRUE(contains(refusal({"--member", "hosts:hosts", "--detach", job}, 2), "--detach"));
  cluster->write("broken.yaml", "comand: [train]\n");
  EXPECT_TRUE(contains(refusal({"--member", "hosts:hosts", cluster->path("broken.yaml")}, 78),
                       "broken.yaml"));
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, WithoutATokenNobodyBegins) {
  StartOptions options;
  options.prefix = network->on_node(1);
  Process& member =
      cluster->train_run({"--member", "hosts:" + cluster->path("hosts"), words("true")}, options);
  EXPECT_EQ(member.wait(), 77);
  EXPECT_TRUE(contains(member.err(), "there is no token")) << member.err();
}

TEST_F(Members, APortThatIsTakenEndsTheMemberThatLaunchesToo) {
  nodes->start(0);  // on the same port
  Process& member = start(0, {"--member", "hosts:" + cluster->path("hosts"), words("true")});
  EXPECT_EQ(member.wait(), 69) << member.err();
  EXPECT_TRUE(contains(member.err(), "7070")) << member.err();
}

TEST_F(Members, AnIndexedJobFindsItselfByItsName) {
  DnsServer dns(*network, cluster->dir());
  const std::string job =
      words("sh, -c, 'echo rank $RANK, index $JOB_COMPLETION_INDEX, of $MASTER_ADDR'");
  for (const int node : {0, 1, 2})
    start(node, {"--member", "dns:train.test:7171", job},
          {{"JOB_COMPLETION_INDEX", std::to_string(node)}}, dns.used());
  EXPECT_TRUE(wait_until([&] {
    return contains(members[0]->err(), "waiting for nodes: the name train.test has no address");
  })) << said();
  dns.set({network->address(2)});
  EXPECT_TRUE(wait_until([&] { return contains(members[0]->out(), "waiting: "); })) << said();
  dns.set({network->address(0), network->address(1), network->address(2)});

  expect_all_end_with(0);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(contains(members[0]->out(), fmt::format("rank {}, index , of 10.83.0.1", rank)))
        << said();
  members.clear();
  EXPECT_TRUE(nothing_left(*cluster));
}

TEST_F(Members, TheTasksOfASlurmStepAreMembers) {
  std::string hosts = "127.0.0.1 localhost\n";
  for (int node = 0; node < 3; ++node)
    hosts += fmt::format("{} n{}\n", network->address(node), node);
  const std::vector<std::string> knows{
      "unshare",
      "--mount",
      "--propagation",
      "private",
      "sh",
      "-c",
      fmt::format("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"",
                  cluster->write("etc-hosts", hosts))};
  const std::string job = words("sh, -c, 'echo rank $RANK of job $SLURM_JOB_ID'");
  for (const int node : {0, 1, 2})
    start(node, {"--member", "slurm", job},
          {{"SLURM_JOB_ID", "4711"},
           {"SLURM_JOB_NODELIST", "n[0-2]"},
           {"SLURM_STEP_ID", "0"},
           {"SLURM_STEP_NODELIST", "n[0-2]"},
           {"SLURM_STEP_NUM_TASKS", "3"},
           {"SLURM_PROCID", std::to_string(node)},
           {"SLURMD_NODENAME", fmt::format("n{}", node)},
           {"SLURM_JOB_END_TIME", "4000000000"}},
          knows);

  expect_all_end_with(0);
  EXPECT_TRUE(contains(members[0]->out(), "rank 2 of job 4711")) << said();
  EXPECT_TRUE(nothing_left(*cluster));
}

}  // namespace
}  // namespace train::e2e
