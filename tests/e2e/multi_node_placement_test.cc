// Where workers go with several trainds, and what the launcher waits for or refuses immediately.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr const char* kSayWhere =
    "command: 'echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, node "
    "$GROUP_RANK of $GROUP_WORLD_SIZE, "
    "at $MASTER_ADDR on $GLOO_SOCKET_IFNAME'\n";

std::string job(const Cluster& cluster, const std::string& scaling, const std::string& name = "job",
                const std::string& more = "") {
  return cluster.job(name, kSayWhere + ("scaling_config: " + scaling + "\n") + more);
}

/// Map each rank to its line, such as "[n0 1] rank 1 of 3, …".
std::map<int, std::string> lines_by_rank(const std::string& out) {
  std::map<int, std::string> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('[') && contains(line, "] rank "))
      lines[std::stoi(line.substr(line.find("] rank ") + 7))] = line;
  }
  return lines;
}

/// Return the node of each rank: "n0 n0 n1".
std::string nodes_of_ranks(const std::string& out) {
  std::string nodes;
  for (const auto& [rank, line] : lines_by_rank(out)) nodes += line.substr(1, line.find(' '));
  if (!nodes.empty()) nodes.pop_back();
  return nodes;
}

TEST(MultiNodePlacement, TwoNodesAreOneGroup) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all();

  Process& run = nodes.train_run(job(cluster, "{num_workers: 3, placement_strategy: SPREAD}"), 2);

  EXPECT_EQ(run.wait(), 0);
  const std::map<int, std::string> expected{
      {0, "[n0 0] rank 0 of 3, local 0 of 2, node 0 of 2, at 127.0.0.1 on lo"},
      {1, "[n0 1] rank 1 of 3, local 1 of 2, node 0 of 2, at 127.0.0.1 on lo"},
      {2, "[n1 2] rank 2 of 3, local 0 of 1, node 1 of 2, at 127.0.0.1 on lo"},
  };
  EXPECT_EQ(lines_by_rank(run.out()), expected) << run.out() << run.err();
}

TEST(MultiNodePlacement, TheClusterIsNamedInFourWays) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all();
  const std::string scaling = "{num_workers: 2, placement_strategy: STRICT_SPREAD}";
  const std::string file = cluster.write(
      "hosts",
      fmt::format("# two nodes\n{}\n\n{}   # the second\n", nodes.endpoint(0), nodes.endpoint(1)));

  const StartOptions with_token{
      .env = {{"TRAINRUN_TOKEN_FILE", cluster.path("token")}}, .prefix = {}, .cwd = ""};
  Process& by_option =
      cluster.train_run({job(cluster, scaling, "option"), "--hosts", nodes.hosts(2)}, with_token);
  EXPECT_EQ(by_option.wait(), 0);
  Process& by_file =
      cluster.train_run({job(cluster, scaling, "file"), "--hosts-file", file}, with_token);
  EXPECT_EQ(by_file.wait(), 0);
  const std::string in_spec =
      fmt::format("cluster: {{nodes: ['{}', '{}']}}\n", nodes.endpoint(0), nodes.endpoint(1));
  Process& by_spec = cluster.train_run({job(cluster, scaling, "spec", in_spec)}, with_token);
  EXPECT_EQ(by_spec.wait(), 0);
  Process& by_variable = cluster.train_run({job(cluster, scaling, "variable")},
                                           {.env = {{"TRAINRUN_CLUSTER", nodes.hosts(2)},
                                                    {"TRAINRUN_TOKEN_FILE", cluster.path("token")}},
                                            .prefix = {},
                                            .cwd = ""});
  EXPECT_EQ(by_variable.wait(), 0);

  for (const Process* run : {&by_option, &by_file, &by_spec, &by_variable})
    EXPECT_EQ(nodes_of_ranks(run->out()), "n0 n1") << run->out() << run->err();
}

TEST(MultiNodePlacement, EveryStrategyOnUnevenNodes) {
  Cluster cluster;
  Nodes nodes(cluster, 3);
  nodes.start(0, {"--resource", "CPU=4"});
  nodes.start(1, {"--resource", "CPU=2"});
  nodes.start(2, {"--resource", "CPU=1"});
  struct Case {
    std::string scaling, nodes;
  };
  const std::vector<Case> cases{
      {"num_workers: 2, placement_strategy: PACK", "n0 n0"},
      {"num_workers: 5, placement_strategy: PACK", "n0 n0 n0 n0 n1"},
      {"num_workers: 7, placement_strategy: PACK", "n0 n0 n0 n0 n1 n1 n2"},
      {"num_workers: 4, placement_strategy: SPREAD", "n0 n0 n1 n2"},
      {"num_workers: 6, placement_strategy: SPREAD", "n0 n0 n0 n1 n1 n2"},
      {"num_workers: 4, placement_strategy: STRICT_PACK", "n0 n0 n0 n0"},
      {"num_workers: 3, placement_strategy: STRICT_SPREAD", "n0 n1 n2"},
      {"num_workers: 2, placement_strategy: PACK, resources_per_worker: {CPU: 2}", "n0 n0"},
      {"num_workers: 3, placement_strategy: PACK, resources_per_worker: {CPU: 2}", "n0 n0 n1"},
      {"num_workers: 2, placement_strategy: SPREAD, resources_per_worker: {CPU: 2}", "n0 n1"},
  };

  for (std::size_t i = 0; i < cases.size(); ++i) {
    Process& run =
        nodes.train_run(job(cluster, "{" + cases[i].scaling + "}", fmt::format("case-{}", i)), 3);
    EXPECT_EQ(run.wait(), 0) << cases[i].scaling;
    EXPECT_EQ(nodes_of_ranks(run.out()), cases[i].nodes) << cases[i].scaling << "\n"
                                                         << run.out() << run.err();
  }
}

TEST(MultiNodePlacement, ResourcesAreWhatTheDaemonOffers) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start(0, {"--resource", "CPU=2"});
  nodes.start(1, {"--resource", "CPU=2", "--resource", "tape=1"});

  Process& run =
      nodes.train_run(job(cluster, "{num_workers: 1, resources_per_worker: {CPU: 1, tape: 1}}"), 2);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(nodes_of_ranks(run.out()), "n1") << run.out() << run.err();
}

TEST(MultiNodePlacement, WhatCanNeverFitEndsAtOnce) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start(0, {"--resource", "CPU=4"});
  nodes.start(1, {"--resource", "CPU=2"});
  struct Case {
    std::string scaling, reason;
  };
  const std::vector<Case> cases{
      {"num_workers: 7",
       "7 workers with CPU 1 each are needed (PACK), 6 fit: n0 has CPU 4 (room for 4); n1 has CPU "
       "2 (room for 2)"},
      {"num_workers: 5, placement_strategy: STRICT_PACK",
       "5 workers with CPU 1 each are needed (STRICT_PACK), 4 fit: n0 has CPU 4 (room for 4); n1 "
       "has CPU 2 (room for 2)"},
      {"num_workers: 3, placement_strategy: STRICT_SPREAD",
       "3 workers with CPU 1 each are needed (STRICT_SPREAD), 2 fit: n0 has CPU 4 (room for 3); n1 "
       "has CPU 2 (room for 2)"},
      {"num_workers: 2, resources_per_worker: {CPU: 1, tape: 1}",
       "2 workers with CPU 1, tape 1 each are needed (PACK), 0 fit: n0 has CPU 4, tape 0 (room for "
       "0); n1 has CPU 2, tape 0 (room for 0)"},
  };

  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = fmt::format("case-{}", i);
    Process& run = nodes.train_run(job(cluster, "{" + cases[i].scaling + "}", name), 2);
    EXPECT_EQ(run.wait(), 69) << cases[i].scaling;
    EXPECT_TRUE(contains(run.out(), name + " did not start: " + cases[i].reason + "\n"))
        << run.out() << run.err();
    EXPECT_EQ(text_of(cluster.exit_json(name), "cause"), cases[i].reason);
  }
}

TEST(MultiNodePlacement, AMissingDaemonIsNamedAndTheRunStartsWhenItAppears) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start(0);
  Process& run = nodes.train_run(job(cluster, "{num_workers: 4}"), 2);

  EXPECT_TRUE(wait_until([&] {
    return contains(run.out(),
                    "waiting: 4 workers with CPU 1 each are needed (PACK), 2 fit: n0 has free CPU "
                    "2 (room for 2)\n");
  })) << run.out()
      << run.err();
  EXPECT_TRUE(contains(
      run.out(), fmt::format("waiting for 1 of 2 nodes: {} (connecting: Connection refused)\n",
                             nodes.endpoint(1))))
      << run.out();
  nodes.start(1);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(nodes_of_ranks(run.out()), "n0 n0 n1 n1") << run.out() << run.err();
}

TEST(MultiNodePlacement, ARunStartsWithoutADaemonThatItDoesNotNeed) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start(0);

  Process& run = nodes.train_run(job(cluster, "{num_workers: 2}"), 2);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(nodes_of_ranks(run.out()), "n0 n0") << run.out() << run.err();
}

/// Start a run that holds both nodes until the file "go-on" is there.
Process& hold_all(Cluster& cluster, Nodes& nodes) {
  const std::string holder = cluster.job(
      "holder", "command: [" + program("plain_worker") + ", print, holding, wait-for, " +
                    cluster.path("go-on") + "]\n" + "scaling_config: {num_workers: 4}\n");
  Process& run = nodes.train_run(holder, 2);
  wait_until([&] { return cluster.workers().size() == 4; });
  return run;
}

TEST(MultiNodePlacement, ARunWaitsForWhatAnotherHoldsAndThenStarts) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all();
  Process& first = hold_all(cluster, nodes);
  ASSERT_EQ(cluster.workers().size(), 4u) << first.out() << first.err();

  Process& second =
      nodes.train_run(job(cluster, "{num_workers: 2, placement_strategy: STRICT_SPREAD}"), 2);
  EXPECT_TRUE(wait_until([&] {
    return contains(second.out(),
                    "waiting: 2 workers with CPU 1 each are needed (STRICT_SPREAD), 0 fit: n0 has "
                    "free CPU 0 (room for 0); "
                    "n1 has free CPU 0 (room for 0)\n");
  })) << second.out()
      << second.err();
  cluster.write("go-on", "");

  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(nodes_of_ranks(second.out()), "n0 n1") << second.out() << second.err();
}

// As `ssh -N -L 127.0.0.N:7170:127.0.0.1:7070 node` does: passes bytes between the hub's loopback
// and a node.
constexpr const char* kTunnels = R"(
import socket, sys, threading
def pump(source, target):
    try:
        while data := source.recv(65536): target.sendall(data)
    except OSError: pass
    for end in (source, target):
        try: end.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(listener, address):
    while True:
        near = listener.accept()[0]
        far = socket.create_connection((address, 7070))
        for pair in ((near, far), (far, near)): threading.Thread(target=pump, args=pair, daemon=True).start()
for number, address in enumerate(sys.argv[1:], 1):
    listener = socket.create_server((f"127.0.0.{number}", 7170))
    threading.Thread(target=serve, args=(listener, address), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
)";

class MultiNodeTunnels : public ThreeNodes {};

TEST_F(MultiNodeTunnels, NodesThatTheLauncherReachesOverLoopbackKeepTheirAddressesForEachOther) {
  nodes->start(0);
  nodes->start(1);
  const Process& tunnels =
      cluster->start({"python3", "-c", kTunnels, network->address(0), network->address(1)},
                     {.prefix = network->on_hub()});
  ASSERT_TRUE(wait_until([&] { return contains(tunnels.out(), "ready"); })) << tunnels.err();

  Process& run =
      nodes->train_run(job(*cluster, "{num_workers: 2, placement_strategy: STRICT_SPREAD}"), 0,
                       {"--hosts", "127.0.0.1:7170,127.0.0.2:7170"});

  EXPECT_EQ(run.wait(), 0);
  const std::string at = fmt::format(" at {} on data0", network->address(0));
  const std::map<int, std::string> expected{
      {0, "[n0 0] rank 0 of 2, local 0 of 1, node 0 of 2," + at},
      {1, "[n1 1] rank 1 of 2, local 0 of 1, node 1 of 2," + at},
  };
  EXPECT_EQ(lines_by_rank(run.out()), expected) << run.out() << run.err();
}

// All of them are offered what the holder leaves, and the room is enough for one.
TEST(MultiNodePlacement, RunsThatWaitForTheSameRoomTakeTurns) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all();
  Process& first = hold_all(cluster, nodes);
  ASSERT_EQ(cluster.workers().size(), 4u) << first.out() << first.err();
  std::vector<Process*> waiting;
  for (const char* name : {"second", "third", "fourth"})
    waiting.push_back(&nodes.train_run(job(cluster, "{num_workers: 4}", name), 2));
  for (const Process* run : waiting) {
    ASSERT_TRUE(wait_until([&] { return contains(run->out(), "waiting: 4 workers"); }))
        << run->out() << run->err();
  }

  cluster.write("go-on", "");

  EXPECT_EQ(first.wait(), 0);
  for (Process* run : waiting) {
    EXPECT_EQ(run->wait(), 0) << run->out() << run->err();
    EXPECT_EQ(nodes_of_ranks(run->out()), "n0 n0 n1 n1") << run->out() << run->err();
  }
}

}  // namespace
}  // namespace train::e2e
