// Nodes that a run finds while it goes on: in a hosts file, or as the addresses of a name. Three
// nodes in network namespaces, with a DNS server of the test's own.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "tests/e2e/dns_server.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 20;
constexpr int kFirst = 4, kLater = 12, kLast = 16;  // where ranks wait

class Discovery : public ThreeNodes {
 protected:
  /// Two to three workers, each on a node, that report some epochs. In the first attempts, they
  /// wait before some of them until they are to stop, or until go_on().
  std::string job(const std::string& workers = "{min: 1, max: 3}", const std::string& more = "",
                  const std::string& attempts = "1") const {
    return cluster->job(
        "job",
        fmt::format(
            "command: [{}]\n"
            "scaling_config: {{num_workers: {}, placement_strategy: STRICT_SPREAD}}\n"
            "train_loop_config: {{mode: epochs, epochs: {}, hold_file: '{}', "
            "checkpoint_every: 0, on_stop: true, hold_at: [{}, {}, {}], hold_until_stop: true, "
            "hold_attempts: {}}}\n{}",
            program("sdk_worker"), workers, kEpochs, cluster->path("go"), kFirst, kLater, kLast,
            attempts, more),
        "  failure_config: {node_suspect_after: 1s, node_dead_after: 3s, stop_grace: 10s}\n");
  }
  void let_go(int attempt, int epoch) const {
    cluster->write(fmt::format("go-{}-{}", attempt, epoch), "");
  }
  /// Let the attempt's ranks go on. An order to meet at a checkpoint may still be on its way to
  /// them: they wait for it before epoch kLater.
  void go_on(int attempt) const {
    let_go(attempt, kFirst);
    EXPECT_TRUE(wait_until([&] {
      const std::vector<int> sizes = world_sizes();
      const auto index = static_cast<std::size_t>(attempt);
      return sizes.size() > index + 1 || are_at(attempt, sizes.at(index), kLater);
    }));
    let_go(attempt, kLater);
    let_go(attempt, kLast);
  }
  /// Replace the hosts file as a whole, as an editor does.
  void list(const std::string& text) const {
    std::filesystem::rename(cluster->write("hosts.new", text), hosts_file());
  }
  std::string hosts_file() const { return cluster->path("hosts"); }
  std::string line(int node) const { return nodes->endpoint(node) + "\n"; }
  /// Return whether this many workers of the attempt have come to the epoch.
  bool are_at(int attempt, int workers, int epoch) const {
    std::map<int, std::int64_t> last;
    for (const Reported& report : reports(*cluster, "job"))
      if (report.attempt == attempt) last[report.rank] = report.epoch;
    return workers == std::count_if(last.begin(), last.end(),
                                    [&](const auto& one) { return one.second >= epoch - 1; });
  }
  /// Wait until this many workers of the attempt wait before the epoch.
  bool held(int attempt, int workers, int epoch = kFirst) const {
    return wait_until([&] { return are_at(attempt, workers, epoch); });
  }
  static bool says(const Process& run, const std::string& text) {
    return wait_until([&] { return contains(run.out() + run.err(), text); });
  }
  std::vector<int> world_sizes() const {
    std::vector<int> sizes;
    for (const auto& event : cluster->journal("job"))
      if (text_of(event, "event") == "attempt_started")
        sizes.push_back(static_cast<int>(event.at("world_size").as_int64()));
    return sizes;
  }
  static int times(const std::string& text, const std::string& part) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
};

TEST_F(Discovery, AnElasticRunTakesInTheNodeThatTheHostsFileGains) {
  nodes->start_all();
  list("# the first ones\n" + line(0) + nodes->endpoint(1) + " slots=8\n" + line(0));
  Process& run = nodes->train_run(job(), 0, {"--hosts-file", hosts_file()});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();

  list(line(0) + line(1) + line(2));
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(0);  // should_stop() stays false while ranks only meet at a checkpoint

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 3}));
  EXPECT_TRUE(contains(run.out(), fmt::format("lists {} now", nodes->endpoint(2)))) << run.out();
  expect_exactly_once(reports(*cluster, "job"));
}

TEST_F(Discovery, ANodeThatVanishesIsUsedUntilItIsDead) {
  nodes->start_all();
  list(line(0) + line(1));
  Process& run =
      nodes->train_run(job("{min: 1, max: 2}", "", "2"), 0, {"--hosts-file", hosts_file()});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();

  list(line(0));
  ASSERT_TRUE(says(run, "does not list n1 any more: used until dead")) << run.out() << run.err();
  EXPECT_EQ(cluster->workers().size(), 2u);
  nodes->power_off(1);
  ASSERT_TRUE(says(run, "node n1 is lost")) << run.out() << run.err();
  ASSERT_TRUE(wait_until([&] { return world_sizes() == std::vector<int>({2, 1}); })) << run.out();
  // It is back, but nobody has named it.
  nodes->power_on(1);
  ASSERT_TRUE(held(1, 1)) << run.out() << run.err();
  list(line(1) + line(0));
  ASSERT_TRUE(says(run, fmt::format("lists {} now", nodes->endpoint(1)))) << run.out();
  ASSERT_TRUE(says(run, "there is room for 2 workers instead of 1")) << run.out() << run.err();
  go_on(1);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 1, 2}));
}

TEST_F(Discovery, AFileThatMakesNoSenseForAWhileChangesNothing) {
  nodes->start_all();
  list(line(0) + line(1));
  Process& run = nodes->train_run(job("{min: 2, max: 3}"), 0, {"--hosts-file", hosts_file()});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();
  const std::string kept = "keeping the 2 nodes that were listed: ";

  list(line(0) + "-oProxyCommand=x\n-x\n");
  ASSERT_TRUE(says(run, kept + "the hosts file")) << run.out() << run.err();
  list("");
  std::filesystem::remove(hosts_file());
  std::filesystem::create_directory(hosts_file());
  std::filesystem::remove(hosts_file());
  list(line(0) + line(1) + line(2));
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(0);
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 3}));
  EXPECT_TRUE(contains(run.err() + run.out(), "'-x' has a host that is no name")) << run.out();
}

TEST_F(Discovery, ANodeThatIsListedUnderAnotherAddressTooIsOne) {
  nodes->start_all();
  list(line(0) + line(1));
  Process& run = nodes->train_run(job("{min: 2, max: 3}"), 0, {"--hosts-file", hosts_file()});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();

  list(line(0) + line(1) + fmt::format("[::ffff:{}]\n", network->address(1)));
  ASSERT_TRUE(says(run, fmt::format("is the same traind as {}", nodes->endpoint(1))))
      << run.out() << run.err();
  go_on(0);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2}));
}

TEST_F(Discovery, ALauncherThatResumesFindsItsNodesInAnyOrder) {
  nodes->start_all();
  list(line(0) + line(1));
  Process& run =
      nodes->train_run(job("{min: 2, max: 3}", "", "2"), 0, {"--hosts-file", hosts_file()});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();
  let_go(1, kLater);  // attempt 1 may begin before that epoch, or after it
  list(line(0) + line(1) + line(2));
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(0);
  ASSERT_TRUE(held(1, 3, kLast)) << run.out() << run.err();
  const std::set<pid_t> before = cluster->worker_pids();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  list(line(2) + line(1));  // n0 has vanished meanwhile, and lives
  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(says(resumed, "attempt 1")) << resumed.out() << resumed.err();
  EXPECT_EQ(cluster->worker_pids(), before);
  go_on(1);

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 3}));
  expect_exactly_once(reports(*cluster, "job"));
}

TEST_F(Discovery, AHostsFileThatIsWrongEndsTheStart) {
  const auto refusal = [&](const std::string& file, int code) {
    Process& run = nodes->train_run(job("1"), 0, {"--hosts-file", file});
    EXPECT_EQ(run.wait(), code) << run.err();
    return run.err();
  };
  EXPECT_TRUE(contains(refusal(cluster->path("none"), 69), "No such file or directory"));
  EXPECT_TRUE(contains(refusal(cluster->write("bad", "a b -x\n"), 69),
                       "bad': '-x' has a host that is no name"));
  EXPECT_TRUE(contains(refusal(cluster->write("large", std::string(2u << 20, '\n')), 69),
                       "it has more than 1048576 bytes"));
  EXPECT_TRUE(contains(refusal("/dev/zero", 69), "'/dev/zero' is no file"));
  EXPECT_TRUE(contains(refusal(cluster->dir(), 69), "is no file"));
  Process& waiting = nodes->train_run(
      cluster->job("job", "command: [/bin/true]\n", "  failure_config: {start_timeout: 3s}\n"), 0,
      {"--hosts-file", cluster->write("empty", "# soon\n")});
  EXPECT_EQ(waiting.wait(), 69);
  EXPECT_TRUE(contains(waiting.err(), "waiting for nodes: the hosts file")) << waiting.err();
  EXPECT_TRUE(contains(waiting.err(), "names no host (waited 3.0 s)")) << waiting.err();
}

class DnsDiscovery : public Discovery {
 protected:
  void SetUp() override {
    Discovery::SetUp();
    if (!IsSkipped()) dns = std::make_unique<DnsServer>(*network, cluster->dir());
  }
  void TearDown() override {
    dns.reset();
    Discovery::TearDown();
  }
  Process& start_run(const std::string& job) const {
    StartOptions options;
    options.prefix = network->on_hub();
    const auto used = dns->used();
    options.prefix.insert(options.prefix.end(), used.begin(), used.end());
    return cluster->train_run({job, "--token-file", cluster->path("token")}, options);
  }
  static std::string by_name() { return fmt::format("cluster: {{dns: {}}}\n", DnsServer::kName); }
  std::unique_ptr<DnsServer> dns;
};

TEST_F(DnsDiscovery, ANameIsWaitedForAndItsNewAddressesAreNodes) {
  nodes->start_all();
  Process& run = start_run(job("{min: 2, max: 3}", by_name()));
  ASSERT_TRUE(says(run, "waiting for nodes: the name train.test has no address: "))
      << run.out() << run.err();

  dns->set({network->address(1), network->address(0)});
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();
  dns->set({network->address(1), network->address(0), network->address(2)});
  ASSERT_TRUE(says(run, "there is room for 3 workers instead of 2")) << run.out() << run.err();
  go_on(0);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2, 3}));
  expect_exactly_once(reports(*cluster, "job"));
}

TEST_F(DnsDiscovery, AResolverThatDoesNotAnswerHoldsUpNothing) {
  nodes->start_all();
  dns->set({network->address(0), network->address(1)});
  Process& run = start_run(job("{min: 2, max: 3}", by_name()));
  ASSERT_TRUE(held(0, 2)) << run.out() << run.err();

  dns->fall_silent();
  const int asked = dns->questions();
  ASSERT_TRUE(wait_until([&] { return dns->questions() > asked; }));  // it hangs now
  go_on(0);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(world_sizes(), (std::vector<int>{2}));
}

TEST_F(DnsDiscovery, AStartThatWaitsForAResolverCanBeInterrupted) {
  dns->fall_silent();
  Process& run = start_run(job("1", by_name()));
  ASSERT_TRUE(says(run, "waiting for nodes: the name train.test cannot be read yet: no answer"))
      << run.err();

  run.signal(SIGTERM);

  EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.err();
}

}  // namespace
}  // namespace train::e2e
