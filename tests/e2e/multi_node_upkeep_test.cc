// Events around a working cluster: an upgrade, clock changes, and peers that stall.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <list>

#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr int kEpochs = 12;
constexpr const char* kFakeTime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

std::string training(const Cluster& cluster, const std::string& hold_at) {
  return cluster.job("job",
                     fmt::format("command: [{}]\nscaling_config: {{num_workers: 2}}\n"
                                 "train_loop_config: {{mode: epochs, epochs: {}, "
                                 "checkpoint_every: 0, hold_file: '{}', hold_at: {}}}\n",
                                 program("sdk_worker"), kEpochs, cluster.path("go"), hold_at),
                     "  failure_config: {max_failures: 0}\n");
}

/// Wait until each of two ranks has reported the epochs below `epoch`.
bool at(const Cluster& cluster, int epoch) {
  return wait_until([&] { return reports(cluster, "job").size() == std::size_t{2} * epoch; });
}

void expect_nothing_lost(const Cluster& cluster, Process& run) {
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
  expect_exactly_once(reports(cluster, "job"));
  EXPECT_EQ(reports(cluster, "job").size(), 2u * kEpochs);
}

/// A peer that connects, sends some bytes, and waits.
class Stalling {
 public:
  Stalling(const std::string& endpoint, const std::string& bytes)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto colon = endpoint.find(':');
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(colon + 1))));
    ::inet_pton(AF_INET, endpoint.substr(0, colon).c_str(), &address.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  ~Stalling() { ::close(fd_); }
  Stalling(const Stalling&) = delete;
  Stalling& operator=(const Stalling&) = delete;

  /// Return whether the connection ended, with or without an answer.
  bool was_closed() const {
    char bytes[4096];
    ssize_t got = 0;
    while ((got = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    }
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }

 private:
  int fd_;
};

TEST(MultiNodeUpkeep, AnUpgradedTraindFindsTheWorkersOfTheOneBefore) {
  Cluster cluster;
  Nodes nodes(cluster, 1);
  nodes.start(0);
  Process& run = nodes.train_run(training(cluster, "[4, 8]"), 1);
  ASSERT_TRUE(at(cluster, 4)) << run.out() << run.err();
  const std::vector<pid_t> before = nodes.workers_on(0);

  nodes.daemon(0).signal(SIGINT);
  EXPECT_EQ(nodes.daemon(0).wait(), 0);
  cluster.write("go-0-4", "");
  nodes.start(0);
  ASSERT_TRUE(at(cluster, 8)) << run.out() << run.err();
  EXPECT_EQ(nodes.workers_on(0), before);
  cluster.write("go-0-8", "");

  expect_nothing_lost(cluster, run);
}

TEST(MultiNodeUpkeep, NodesTellWhatTheyHaveAndDo) {
  Cluster cluster;
  Nodes nodes(cluster, 3);
  nodes.start(0);
  nodes.start(1);
  Process& run = nodes.train_run(training(cluster, "[4]"), 1);
  ASSERT_TRUE(at(cluster, 4)) << run.out() << run.err();
  const auto ask = [&](const std::string& output) {
    return std::vector<std::string>{"nodes",
                                    "--hosts",
                                    nodes.hosts(3),
                                    "--token-file",
                                    cluster.path("token"),
                                    "--output",
                                    output,
                                    "--seconds",
                                    "20"};
  };

  Process& asked = cluster.train_run(ask("json"));
  EXPECT_EQ(asked.wait(), 69) << asked.err();  // the third does not answer
  const auto told = boost::json::parse(asked.out()).at("nodes").as_array();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].at("name").as_string(), "n0");
  EXPECT_EQ(told[0].at("total").at("CPU").to_number<double>(), 2);
  EXPECT_EQ(told[0].at("free").at("CPU").to_number<double>(), 0);
  EXPECT_EQ(told[1].at("free").at("CPU").to_number<double>(), 2);
  EXPECT_TRUE(told[1].as_object().contains("load"));
  EXPECT_EQ(told[2].at("answered").as_bool(), false);
  EXPECT_TRUE(contains(text_of(told[2].as_object(), "problem"), "Connection refused"));

  nodes.drain(0);  // the workers wait, so it goes on until the end of the test
  Process* text = nullptr;
  EXPECT_TRUE(wait_until([&] {
    text = &cluster.train_run(ask("text"));
    (void)text->wait();
    return contains(text->out(), "n0: draining: traind drain");
  })) << text->out();
  EXPECT_TRUE(contains(text->out(), "no answer")) << text->out();
}

TEST(MultiNodeUpkeep, ClocksThatAreSetCostNothing) {
  if (!exists(kFakeTime)) GTEST_SKIP() << "SKIPPED: libfaketime is not installed";
  Cluster cluster;
  const std::string clock = cluster.write("clock", "+0");
  const StartOptions faked{.env = {{"LD_PRELOAD", kFakeTime},
                                   {"FAKETIME_TIMESTAMP_FILE", clock},
                                   {"FAKETIME_NO_CACHE", "1"},
                                   {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}},
                           .prefix = {},
                           .cwd = ""};
  Process& run = cluster.train_run({training(cluster, "[4, 8]")}, faked);
  ASSERT_TRUE(at(cluster, 4)) << run.out() << run.err();

  cluster.write("clock", "+2h");
  cluster.write("go-0-4", "");
  ASSERT_TRUE(at(cluster, 8)) << run.out() << run.err();
  cluster.write("clock", "-2h");
  cluster.write("go-0-8", "");

  expect_nothing_lost(cluster, run);
  const auto journal = cluster.journal("job");
  EXPECT_LT(text_of(journal.back(), "t"), text_of(journal.front(), "t")) << "the clock was not set";
}

TEST(MultiNodeUpkeep, PeersThatStallDoNotKeepARunWaitingAndAreSentAway) {
  Cluster cluster;
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0);
  std::string whole;
  append_frame(encode(Hello{}), whole);
  std::list<Stalling> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(nodes.endpoint(0), "");
    silent.emplace_back(nodes.endpoint(0), whole.substr(0, whole.size() / 2));
    silent.emplace_back(nodes.endpoint(0), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

  Process& run = nodes.train_run(training(cluster, "[]"), 1);

  expect_nothing_lost(cluster, run);
  for (const Stalling& peer : silent) EXPECT_TRUE(wait_until([&] { return peer.was_closed(); }));
  EXPECT_TRUE(daemon.running());
}

}  // namespace
}  // namespace train::e2e
