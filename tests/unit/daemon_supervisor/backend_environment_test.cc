#include "daemon/supervisor/workers/backend_environment.h"

#include <gtest/gtest.h>

#include "daemon/supervisor/workers/worker_environment.h"

namespace train {
namespace {

using Environment = std::map<std::string, std::string>;

const std::vector<std::string> kPeers{"10.0.0.1:41", "10.0.0.1:42", "[fd00::2]:43"};

/// Return what rank 2 of 3, alone on node 1, is told.
Environment of(const BackendProfile& profile, int gpus = 0) {
  const WorkerRanks ranks{.world_size = 3,
                          .rank = 2,
                          .local_rank = 0,
                          .local_world_size = 1,
                          .node_rank = 1,
                          .node_count = 2};
  return backend_environment(
      {.profile = profile, .peers = kPeers, .ranks = ranks, .gpus_per_worker = gpus});
}

TEST(BackendEnvironment, OfTorchAndNoneIsTorchrunsAlone) {
  EXPECT_EQ(of({.name = "torch"}), Environment{});
  EXPECT_EQ(of({.name = "none"}), Environment{});
}

TEST(BackendEnvironment, OfTensorflowIsTheClusterAndTheTask) {
  EXPECT_EQ(of({.name = "tensorflow"}),
            (Environment{{"TF_CONFIG",
                          R"({"cluster":{"worker":["10.0.0.1:41","10.0.0.1:42","[fd00::2]:43"]},)"
                          R"("task":{"type":"worker","index":2}})"},
                         {"TF_USE_LEGACY_KERAS", "1"}}));
}

TEST(BackendEnvironment, OfJaxIsTheFirstRanksPortAndTheRank) {
  const Environment expected{{"JAX_COORDINATOR_ADDRESS", "10.0.0.1:41"},
                             {"JAX_COORDINATOR_BIND_ADDRESS", "10.0.0.1:41"},
                             {"OMPI_MCA_orte_hnp_uri", "trainrun"},
                             {"OMPI_COMM_WORLD_SIZE", "3"},
                             {"OMPI_COMM_WORLD_RANK", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_EQ(of({.name = "jax"}), expected);
}

TEST(BackendEnvironment, OfJaxNamesTheWorkersOwnGpusAmongThoseOfItsNode) {
  const WorkerRanks second{.world_size = 2, .rank = 1, .local_rank = 1, .local_world_size = 2};
  const auto devices = [&](int gpus) {
    const Environment env = backend_environment(
        {.profile = {.name = "jax"}, .peers = kPeers, .ranks = second, .gpus_per_worker = gpus});
    return env.contains("JAX_LOCAL_DEVICE_IDS") ? env.at("JAX_LOCAL_DEVICE_IDS") : "(unset)";
  };
  EXPECT_EQ(devices(0), "(unset)");
  EXPECT_EQ(devices(1), "1");
  EXPECT_EQ(devices(2), "2,3");
}

TEST(BackendEnvironment, OfMpiIsTheSocketAndTheRank) {
  const WorkerRanks second{.world_size = 3, .rank = 1, .local_rank = 1, .local_world_size = 2};
  EXPECT_EQ(
      backend_environment(
          {.profile = {.name = "mpi", .pmi = "pmi1"}, .peers = {}, .ranks = second, .pmi_fd = 17}),
      (Environment{{"PMI_FD", "17"},
                   {"PMI_RANK", "1"},
                   {"PMI_SIZE", "3"},
                   {"MPI_LOCALNRANKS", "2"},
                   {"MPI_LOCALRANKID", "1"}}));
}

TEST(BackendEnvironment, OfPmixIsTheRank) {
  const WorkerRanks second{.world_size = 3, .rank = 1, .local_rank = 1, .local_world_size = 2};
  EXPECT_EQ(backend_environment(
                {.profile = {.name = "mpi", .pmi = "pmix"}, .peers = {}, .ranks = second}),
            (Environment{{"PMIX_NAMESPACE", "(named at start)"},
                         {"PMIX_RANK", "1"},
                         {"OMPI_MCA_orte_local_daemon_uri", "1.0;tcp://127.0.0.1:0"}}));
}

TEST(BackendEnvironment, OfHorovodIsThePlaceAndTheRendezvous) {
  const BackendProfile profile{.name = "horovod"};
  // Nodes of 1, 3 and 2 workers: only the last two have a local rank 1.
  const WorkerRanks last{.world_size = 6,
                         .rank = 5,
                         .local_rank = 1,
                         .local_world_size = 2,
                         .node_rank = 2,
                         .node_count = 3};
  EXPECT_EQ(backend_environment({.profile = profile,
                                 .peers = kPeers,
                                 .ranks = last,
                                 .node_sizes = {1, 3, 2},
                                 .network_interface = "eth1"}),
            (Environment{{"HOROVOD_RANK", "5"},
                         {"HOROVOD_SIZE", "6"},
                         {"HOROVOD_LOCAL_RANK", "1"},
                         {"HOROVOD_LOCAL_SIZE", "2"},
                         {"HOROVOD_CROSS_RANK", "1"},
                         {"HOROVOD_CROSS_SIZE", "2"},
                         {"HOROVOD_HOSTNAME", "node-2"},
                         {"HOROVOD_CONTROLLER", "gloo"},
                         {"HOROVOD_CPU_OPERATIONS", "gloo"},
                         {"HOROVOD_GLOO_IFACE", "eth1"},
                         {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
                         {"HOROVOD_GLOO_RENDEZVOUS_PORT", "41"}}));
  EXPECT_EQ(of(profile).at("HOROVOD_GLOO_IFACE"), "lo");
}

TEST(BackendEnvironment, AJobsOwnVariablesWin) {
  StartWorkers start;
  start.backend.name = "jax";
  start.peers = kPeers;
  start.env = {{"JAX_COORDINATOR_ADDRESS", "mine:1"}, {"OMPI_COMM_WORLD_SIZE", "of the submitter"}};
  start.job_env = {"JAX_COORDINATOR_ADDRESS"};
  start.workers.push_back({.world_size = 3});

  const Environment env = worker_environment({start, Attempt{0}, "", {"0", "1", "2", "3"}},
                                             {start.workers[0], "", "", ""});

  EXPECT_EQ(env.at("JAX_COORDINATOR_ADDRESS"), "mine:1");
  EXPECT_EQ(env.at("OMPI_COMM_WORLD_SIZE"), "3");
  EXPECT_EQ(env.at("JAX_LOCAL_DEVICE_IDS"), "0,1,2,3");
}

}  // namespace
}  // namespace train
