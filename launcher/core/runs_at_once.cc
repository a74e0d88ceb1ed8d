#include "launcher/core/runs_at_once.h"

#include <algorithm>
#include <cstddef>

#include "lib/model/gpu_choice.h"
#include "lib/model/gpu_share.h"

namespace train {
namespace {

constexpr double kSlack = 1e-6;  // claims may be fractions such as 0.1
constexpr double kRunsMax = 1024;

double offered_gpus(const ScalingConfig& scaling, const NodeCapacity& node) {
  if (scaling.gpus.empty()) return node.total.gpu;
  const auto chosen = std::count_if(node.gpus.begin(), node.gpus.end(), [&](const OfferedGpu& gpu) {
    return is_chosen(scaling.gpus, gpu.name, gpu.uuid);
  });
  return std::min(node.total.gpu, static_cast<double>(chosen));
}

}  // namespace

int runs_at_once(const JobSpec& spec, const NodeCapacity& node) {
  const ScalingConfig& scaling = spec.scaling_config;
  if (scaling.num_workers.automatic) return 1;  // it takes all
  const Resources& each = scaling.resources_per_worker;
  const int workers = scaling.num_workers.max;
  double cpu = workers * each.cpu;
  double memory = static_cast<double>(each.memory_bytes) * workers;
  std::size_t gpus = gpus_for(each.gpu, workers);
  for (const RoleSpec& role : scaling.other_roles) {
    cpu += role.workers * role.resources_per_worker.cpu;
    memory += static_cast<double>(role.resources_per_worker.memory_bytes) * role.workers;
    gpus += gpus_for(role.resources_per_worker.gpu, role.workers);
  }
  for (const IngestNeed& need : ingest_needs(spec)) {
    const Resources& of_ingest = need.spec.resources_per_worker;
    cpu += need.spec.workers.max * of_ingest.cpu;
    memory += static_cast<double>(of_ingest.memory_bytes) * need.spec.workers.max;
  }
  // Of a run that claims no cores, one for each core.
  double fit = cpu > 0 ? node.total.cpu / cpu : node.total.cpu;
  if (gpus > 0) fit = std::min(fit, offered_gpus(scaling, node) / static_cast<double>(gpus));
  if (memory > 0) fit = std::min(fit, static_cast<double>(node.total.memory_bytes) / memory);
  return std::max(1, static_cast<int>(std::min(fit + kSlack, kRunsMax)));
}

}  // namespace train
