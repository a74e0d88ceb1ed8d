// An unmodified PyTorch script trains data parallel over Gloo on two nodes, and the group recovers
// from a killed rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

std::string ddp_job(const Cluster& cluster, const std::string& name, int workers,
                    const std::string& arguments, int max_failures) {
  return cluster.job(
      name,
      fmt::format("command: [{}, {}{}]\nscaling_config: {{num_workers: {}}}\n", torch_python(),
                  python_program("train_ddp.py"), arguments, workers),
      fmt::format(
          "  failure_config: {{max_failures: {}, node_suspect_after: 3s, node_dead_after: 10s}}\n",
          max_failures));
}

/// Return what each rank printed at the end, without prefixes. After data parallel training, all
/// ranks print the same.
std::multiset<std::string> last_words(const std::string& out) {
  std::multiset<std::string> words;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) {
    if (const auto at = line.find("] of "); at != std::string::npos)
      words.insert(line.substr(at + 2));
  }
  return words;
}

void expect_trained(const Process& run, std::size_t workers) {
  const std::multiset<std::string> words = last_words(run.out());
  EXPECT_EQ(words.size(), workers) << run.out() << run.err();
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), 1u) << run.out();
}

class MultiNodeDdp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (torch_python().empty())
      GTEST_SKIP() << "SKIPPED: no Python with PyTorch (packaging/deps/install.sh)";
  }
};

/// The real torchrun starts a program of the SDK.
TEST_F(MultiNodeDdp, ASdkProgramUnderTorchrunReportsByRank) {
  Cluster cluster;
  cluster.write("spec.json", R"({"train_loop_config": {"mode": "epochs", "epochs": 2}})");

  Process& torchrun =
      cluster.start({torch_python(), "-m", "torch.distributed.run", "--standalone", "--no-python",
                     "--nproc-per-node", "2", program("sdk_worker"), "--trainrun-spec=spec.json"});

  EXPECT_EQ(torchrun.wait(), 0) << torchrun.out() << torchrun.err();
  for (const char* line : {"[rank 0] report 2: ", "[rank 1] report 1: ",  // the later one resumes
                           "[rank 0] checkpoint of report 2: checkpoints/checkpoint_000002"})
    EXPECT_TRUE(contains(torchrun.out(), line)) << line << torchrun.out() << torchrun.err();
  EXPECT_TRUE(contains(torchrun.err(), "only rank 0's checkpoints are kept, not those of rank 1"));
}

TEST_F(MultiNodeDdp, TheScriptTrainsOnTwoMachines) {
  if (const std::string missing = Network::missing(); !missing.empty())
    GTEST_SKIP() << "SKIPPED: " << missing;
  Network network(2);
  Cluster cluster;
  Nodes nodes(cluster, network, 2);
  nodes.start_all({"--resource", "CPU=1"});

  Process& run = nodes.train_run(ddp_job(cluster, "job", 2, "", 0), 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  expect_trained(run, 2);
}

/// For ten and more rounds, set TRAIN_E2E_ROUNDS=10. Each round loads PyTorch four times.
int rounds() {
  const char* text = std::getenv("TRAIN_E2E_ROUNDS");
  return text != nullptr ? std::atoi(text) : 2;
}

TEST_F(MultiNodeDdp, AKilledRankCostsOneRestartEveryTime) {
  Cluster cluster;
  Nodes nodes(cluster, 2);
  nodes.start_all({"--resource", "CPU=1"});

  for (int round = 0; round < rounds(); ++round) {
    const std::string name = fmt::format("round-{}", round);
    const int victim = round % 2;  // in turn, the rank with the store and the other one
    Process& run =
        nodes.train_run(ddp_job(cluster, name, 2, fmt::format(", die, '{}'", victim), 1), 2);

    ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
    expect_trained(run, 2);
    EXPECT_EQ(restarts(cluster, name), 1);
  }
}

}  // namespace
}  // namespace train::e2e
