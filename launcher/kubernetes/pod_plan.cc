#include "launcher/kubernetes/pod_plan.h"

#include <fmt/format.h>

#include <cmath>

namespace train {
namespace {

Error wrong(std::string message, std::string hint) {
  return {Errc::InvalidArgument, std::move(message), std::move(hint)};
}

int divided_up(int dividend, int divisor) { return (dividend + divisor - 1) / divisor; }

/// Return how many workers the run has at most.
Result<int> count_workers(const ScalingConfig& scaling, const KubernetesOptions& options,
                          double gpus_per_worker) {
  if (scaling.num_workers.none())
    return wrong(
        "scaling_config.num_workers is 0: the program would run here, in place of train-run",
        "ask for workers, such as --set scaling_config.num_workers=8");
  if (!scaling.num_workers.automatic) return scaling.num_workers.max;
  if (gpus_per_worker == 0)
    return wrong(
        "scaling_config.num_workers is auto, and how many cores a pod gets follows from it",
        "say how many, such as --set scaling_config.num_workers=8");
  if (options.nodes == 0 || options.gpus_per_node == 0)
    return wrong("scaling_config.num_workers is auto",
                 "say how many GPUs there are, by --nodes and --gpus-per-node");
  const double of_pod = std::floor(options.gpus_per_node / gpus_per_worker);
  const double all = of_pod * options.nodes;
  if (all < 1 || all > kWorkersMax)
    return wrong(
        fmt::format("{} nodes of {} GPUs give {} workers of {} GPUs, not 1 to {}", options.nodes,
                    options.gpus_per_node, all, gpus_per_worker, kWorkersMax),
        "change --nodes or --gpus-per-node");
  return static_cast<int>(all);
}

/// Return how many workers a pod gets at most.
Result<int> workers_of_pod(const ScalingConfig& scaling, const KubernetesOptions& options,
                           int workers, double gpus_per_worker) {
  if (scaling.workers_per_node > 0) return scaling.workers_per_node;
  if (scaling.placement_strategy == PlacementStrategy::StrictSpread) return 1;
  if (scaling.placement_strategy == PlacementStrategy::StrictPack) return workers;
  if (options.nodes > 0) return divided_up(workers, options.nodes);
  if (options.gpus_per_node > 0 && gpus_per_worker > 0) {
    const double fit = std::floor(options.gpus_per_node / gpus_per_worker);
    return static_cast<int>(std::min<double>(fit, workers));
  }
  if (workers == 1) return 1;
  return wrong(fmt::format("it is open on how many pods the {} workers run", workers),
               gpus_per_worker > 0 ? "add --nodes or --gpus-per-node" : "add --nodes");
}

}  // namespace

Result<PodPlan> plan_pods(const ScalingConfig& scaling, const KubernetesOptions& options) {
  if (!scaling.other_roles.empty())
    return wrong("the job has several roles, for which no pods can be planned yet",
                 "write a job for each role, or the pods by hand");
  const double gpus_per_worker = scaling.use_gpu ? scaling.resources_per_worker.gpu : 0;
  if (options.gpus_per_node > 0 && gpus_per_worker == 0)
    return wrong(fmt::format("--gpus-per-node is {}, and the job's workers use no GPUs",
                             options.gpus_per_node),
                 "set scaling_config.use_gpu, or leave the option out");
  PodPlan plan;
  TRY(plan.workers, count_workers(scaling, options, gpus_per_worker));
  TRY(plan.workers_per_pod, workers_of_pod(scaling, options, plan.workers, gpus_per_worker));
  const double needed = std::ceil(plan.workers_per_pod * gpus_per_worker);
  const int limit = options.gpus_per_node > 0 ? options.gpus_per_node : kGpusPerPodMax;
  if (plan.workers_per_pod < 1 || needed > limit)
    return wrong(
        fmt::format("a pod of {} workers needs {} GPUs, more than {}",
                    std::max(1, plan.workers_per_pod), std::max(needed, std::ceil(gpus_per_worker)),
                    limit),
        options.gpus_per_node > 0 ? "change --nodes or --gpus-per-node" : "have more --nodes");
  plan.pods = options.nodes > 0 ? options.nodes : divided_up(plan.workers, plan.workers_per_pod);
  plan.gpus = options.gpus_per_node > 0 ? options.gpus_per_node : static_cast<int>(needed);
  if (plan.pods > kPodsMax)
    return wrong(fmt::format("the job needs {} pods, more than {}", plan.pods, kPodsMax),
                 "have more workers on each");
  const std::int64_t room = std::int64_t{plan.pods} * plan.workers_per_pod;
  if (room < plan.workers)
    return wrong(fmt::format("--nodes is {}, and that many pods of {} workers hold {} of the {}",
                             plan.pods, plan.workers_per_pod, room, plan.workers),
                 "leave it out, or raise it");
  plan.workers_claim = scaling.resources_per_worker;
  plan.workers_claim.cpu *= plan.workers_per_pod;
  plan.workers_claim.gpu = needed;
  for (auto& [name, amount] : plan.workers_claim.custom) amount *= plan.workers_per_pod;
  // An eighth of what Kubernetes can count leaves room for what the pod needs besides.
  if (plan.workers_claim.memory_bytes > (1ull << 60) / static_cast<unsigned>(plan.workers_per_pod))
    return wrong(fmt::format("{} workers of {} bytes of memory are more than any pod can have",
                             plan.workers_per_pod, plan.workers_claim.memory_bytes),
                 "lower scaling_config.resources_per_worker.memory");
  plan.workers_claim.memory_bytes *= static_cast<unsigned>(plan.workers_per_pod);
  return plan;
}

}  // namespace train
