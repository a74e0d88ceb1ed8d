// Several traind of one cluster: on loopback addresses of their own, or one in each network
// namespace, with a token.
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
  /// On loopback: node i listens on 127.x.y.(i+1):7070, which no other test uses. Nothing is
  /// started yet.
  Nodes(Cluster& cluster, int count);
  /// One in each namespace of `network`, with a token that train_run() shows too.
  Nodes(Cluster& cluster, const Network& network, int count);

  /// Start node i's traind, named n<i>; again after it has been killed. Returns when it listens.
  /// `prefix`: words before its command.
  Process& start(int node, const std::vector<std::string>& more = {"--resource", "CPU=2"},
                 const std::vector<std::string>& prefix = {});
  void start_all(const std::vector<std::string>& more = {"--resource", "CPU=2"});
  Process& daemon(int node) { return *daemons_.at(node); }
  /// "127.x.y.1:7070,127.x.y.2:7070": of the first `count` nodes.
  std::string hosts(int count) const;
  std::string endpoint(int node) const;

  /// train-run over the first `count` nodes; from the hub where there are namespaces.
  Process& train_run(const std::string& job, int count, const std::vector<std::string>& more = {});

  /// `train-run resume` of a run that train_run() began.
  Process& resume(const std::string& run);
  /// `traind drain` on node i.
  Process& drain(int node);
  /// Node i's power fails: its link goes first, then every process at once, with nobody told.
  void power_off(int node);
  /// And it comes back, with an empty /run and a traind that was started at boot.
  Process& power_on(int node);

  /// Workers whose traind is node i's.
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

/// Three nodes, each a network namespace; skipped where there can be none.
class ThreeNodes : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Network> network;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Nodes> nodes;  // not started yet
};

/// Three nodes of which some do not see the run's storage, and a run of two workers on two nodes
/// whose large checkpoints have to get somewhere all the same.
class NoStorage : public ThreeNodes {
 protected:
  static constexpr int kEpochs = 4;
  static constexpr std::size_t kBytes = 32u << 20;  // of each of two ranks, a checkpoint

  void SetUp() override;
  /// An empty folder is where the storage should be.
  Process& start_without_storage(int node);
  /// Both workers wait before the epochs of hold_at. `loop` and `run_config`: more of these.
  std::string job(const std::string& loop, const std::string& run_config) const;
  void go_on(int attempt, int epoch) const;
  std::string checkpoint(int number) const;  // its folder
  bool committed(int number) const;
  std::string log_of(int rank, int attempt) const;
};

/// What a run's ranks reported, in the order of the log.
struct Reported {
  int attempt = 0, rank = 0;
  std::int64_t epoch = 0;
  auto operator<=>(const Reported&) const = default;
};
std::vector<Reported> reports(const Cluster& cluster, const std::string& run);
/// Whether each (attempt, rank) reported ascending epochs, each once and none left out.
void expect_exactly_once(const std::vector<Reported>& reports);
/// How often the run took up its work anew.
int restarts(const Cluster& cluster, const std::string& run);
/// `text` says "no heartbeat for …" of a node: no less than it may be silent, and not much more (a
/// call that fails after that brings the verdict).
void expect_verdict_in_time(const std::string& text, Seconds node_dead_after);
/// The Python with PyTorch; "" when it is not installed.
std::string torch_python();
std::string python_program(const std::string& name);

}  // namespace train::e2e
