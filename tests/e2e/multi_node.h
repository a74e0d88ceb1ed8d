// Several trainds of one cluster, with a token: each on its own loopback address, or each in its
// own network namespace.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/netns.h"

namespace train::e2e {

class Nodes {
 public:
  /// Use loopback: node i listens on 127.x.y.(i+1):7070, which no other test uses. This starts
  /// nothing yet.
  Nodes(Cluster& cluster, int count);
  /// Use the namespaces of `network`, with a token that train_run() shows too.
  Nodes(Cluster& cluster, const Network& network, int count);

  /// Start node i's traind, named n<i>, for the first time or after a kill. Return when it listens.
  /// `prefix`: words before its command.
  Process& start(int node, const std::vector<std::string>& more = {"--resource", "CPU=2"},
                 const std::vector<std::string>& prefix = {});
  void start_all(const std::vector<std::string>& more = {"--resource", "CPU=2"});
  Process& daemon(int node) { return *daemons_.at(node); }
  /// Return the addresses of the first `count` nodes: "127.x.y.1:7070,127.x.y.2:7070".
  std::string hosts(int count) const;
  std::string endpoint(int node) const;

  /// Start train-run with the first `count` nodes (0: `more` names them); with namespaces, it runs
  /// on the hub.
  Process& train_run(const std::string& job, int count, const std::vector<std::string>& more = {});

  /// Start `train-run resume` for a run that train_run() began.
  Process& resume(const std::string& run);
  /// Start `traind drain` on node i.
  Process& drain(int node);
  /// Simulate a power failure of node i: cut its link, then kill every process, unannounced.
  void power_off(int node);
  /// Power node i on again, with an empty /run and a traind that starts at boot.
  Process& power_on(int node);

  /// Return the workers below node i's traind.
  std::vector<pid_t> workers_on(int node) const;
  std::optional<pid_t> supervisor_on(int node) const;

 private:
  std::vector<std::string> daemon_arguments(int node) const;

  Cluster& cluster_;
  const Network* network_ = nullptr;
  std::string token_;
  std::vector<std::string> addresses_;
  std::vector<Process*> daemons_;
};

/// Three nodes, each a network namespace. The test is skipped if there can be none.
class ThreeNodes : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Network> network;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Nodes> nodes;  // not started yet
};

/// Three nodes, some of which do not see the run's storage, and a run of two workers on two nodes,
/// whose large checkpoints must reach the storage nevertheless.
class NoStorage : public ThreeNodes {
 protected:
  static constexpr int kEpochs = 4;
  static constexpr std::size_t kBytes = 32u << 20;  // per checkpoint, for each of two ranks

  void SetUp() override;
  /// Start the node with an empty folder in place of the storage.
  Process& start_without_storage(int node);
  /// Both workers wait before the epochs of hold_at. `loop` and `run_config` add to these sections.
  std::string job(const std::string& loop, const std::string& run_config) const;
  void go_on(int attempt, int epoch) const;
  std::string checkpoint(int number) const;  // returns its folder
  bool committed(int number) const;
  std::string log_of(int rank, int attempt) const;
};

/// A report of a run's rank, in the order of the log.
struct Reported {
  int attempt = 0, rank = 0;
  std::int64_t epoch = 0;
  auto operator<=>(const Reported&) const = default;
};
std::vector<Reported> reports(const Cluster& cluster, const std::string& run);
/// Check that each (attempt, rank) reported ascending epochs, each once and without gaps.
void expect_exactly_once(const std::vector<Reported>& reports);
/// Return how often the run restarted.
int restarts(const Cluster& cluster, const std::string& run);
/// Check that `text` says "no heartbeat for …" with a time of at least node_dead_after and not much
/// more: the verdict comes with the next failed call.
void expect_verdict_in_time(const std::string& text, Seconds node_dead_after);
/// Return the Python with PyTorch, or "" if it is not installed.
std::string torch_python();
std::string python_program(const std::string& name);

}  // namespace train::e2e
