#include "daemon/supervisor/workers/backend_environment.h"

#include <fmt/format.h>

#include <boost/json.hpp>

namespace train {
namespace {

namespace json = boost::json;
using Environment = std::map<std::string, std::string>;

/// https://www.tensorflow.org/guide/distributed_training: all peers, and which of them we are.
Environment tensorflow_environment(const BackendInput& input) {
  json::array workers(input.peers.begin(), input.peers.end());
  const json::object config{{"cluster", {{"worker", std::move(workers)}}},
                            {"task", {{"type", "worker"}, {"index", input.ranks.rank}}}};
  // Keras 3 cannot fit with MultiWorkerMirroredStrategy (keras#20585); tf_keras can.
  return {{"TF_CONFIG", json::serialize(config)}, {"TF_USE_LEGACY_KERAS", "1"}};
}

/// jax.distributed.initialize() without arguments reads the coordinator from JAX's own variables,
/// but the ranks only from those of a launcher that it knows: Open MPI's (jax#12415).
Environment jax_environment(const BackendInput& input) {
  if (input.peers.empty()) return {};
  const std::string& coordinator = input.peers.front();
  Environment env{{"JAX_COORDINATOR_ADDRESS", coordinator},
                  {"JAX_COORDINATOR_BIND_ADDRESS", coordinator},  // else: all interfaces
                  {"OMPI_MCA_orte_hnp_uri", "trainrun"},
                  {"OMPI_COMM_WORLD_SIZE", std::to_string(input.ranks.world_size)},
                  {"OMPI_COMM_WORLD_RANK", std::to_string(input.ranks.rank)},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(input.ranks.local_rank)}};
  std::vector<int> devices;  // every worker sees the GPUs of its whole node
  for (int i = 0; i < input.gpus_per_worker; ++i)
    devices.push_back(input.ranks.local_rank * input.gpus_per_worker + i);
  if (!devices.empty()) env["JAX_LOCAL_DEVICE_IDS"] = fmt::format("{}", fmt::join(devices, ","));
  return env;
}

/// As MPICH's own mpiexec sets them.
Environment pmi_environment(const BackendInput& input) {
  return {{"PMI_FD", input.pmi_fd < 0 ? "(opened at start)" : std::to_string(input.pmi_fd)},
          {"PMI_RANK", std::to_string(input.ranks.rank)},
          {"PMI_SIZE", std::to_string(input.ranks.world_size)},
          {"MPI_LOCALNRANKS", std::to_string(input.ranks.local_world_size)},
          {"MPI_LOCALRANKID", std::to_string(input.ranks.local_rank)}};
}

/// Two of the variables that PMIx itself will name (trainrun-pmix asks it), and one for Open MPI 4:
/// it uses PMIx only if a daemon of its own seems to have started it. It does not connect to that
/// address.
Environment pmix_environment(const BackendInput& input) {
  return {{"PMIX_NAMESPACE", "(named at start)"},
          {"PMIX_RANK", std::to_string(input.ranks.rank)},
          {"OMPI_MCA_orte_local_daemon_uri", "1.0;tcp://127.0.0.1:0"}};
}

/// As horovodrun sets them for its Gloo controller. The cross group of a rank has the ranks of
/// other nodes with the same local rank.
Environment horovod_environment(const BackendInput& input) {
  if (input.peers.empty()) return {};
  const WorkerRanks& ranks = input.ranks;
  int cross_rank = 0, cross_size = 0;
  for (std::size_t node = 0; node < input.node_sizes.size(); ++node) {
    if (input.node_sizes[node] <= ranks.local_rank) continue;
    if (static_cast<int>(node) < ranks.node_rank) ++cross_rank;
    ++cross_size;
  }
  const std::string& first = input.peers.front();
  const std::size_t colon = first.rfind(':');
  const bool alone = input.network_interface.empty();
  return {{"HOROVOD_RANK", std::to_string(ranks.rank)},
          {"HOROVOD_SIZE", std::to_string(ranks.world_size)},
          {"HOROVOD_LOCAL_RANK", std::to_string(ranks.local_rank)},
          {"HOROVOD_LOCAL_SIZE", std::to_string(ranks.local_world_size)},
          {"HOROVOD_CROSS_RANK", std::to_string(cross_rank)},
          {"HOROVOD_CROSS_SIZE", std::to_string(cross_size)},
          {"HOROVOD_HOSTNAME", fmt::format("node-{}", ranks.node_rank)},
          {"HOROVOD_CONTROLLER", "gloo"},
          {"HOROVOD_CPU_OPERATIONS", "gloo"},
          {"HOROVOD_GLOO_IFACE", alone ? "lo" : input.network_interface},
          {"HOROVOD_GLOO_RENDEZVOUS_ADDR", first.substr(0, colon)},
          {"HOROVOD_GLOO_RENDEZVOUS_PORT", first.substr(colon + 1)}};
}

}  // namespace

Environment backend_environment(const BackendInput& input) {
  if (input.profile.name == "tensorflow") return tensorflow_environment(input);
  if (input.profile.name == "jax") return jax_environment(input);
  if (input.profile.name == "mpi")
    return input.profile.pmi == "pmix" ? pmix_environment(input) : pmi_environment(input);
  if (input.profile.name == "horovod") return horovod_environment(input);
  return {};
}

}  // namespace train
