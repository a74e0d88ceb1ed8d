// What `train-run k8s` is told beside the job's YAML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// Job: each pod is a node, and the first one launches. JobSet: pods of traind, and a pod that
/// launches. Pool: a traind on each machine of the cluster, for many runs.
enum class KubernetesKind { Job, JobSet, Pool };

inline constexpr int kPodsMax = 10'000;
inline constexpr int kGpusPerPodMax = 1024;

struct KubernetesOptions {
  KubernetesKind kind = KubernetesKind::Job;
  std::string image = {};
  std::string name = {};                      // empty: the run's
  std::string in_namespace = {};              // empty: as kubectl has it
  int nodes = 0;                              // pods; 0: as many as the workers need
  int gpus_per_node = 0;                      // 0: as many as a pod's workers need
  std::string storage_claim = {};             // a PersistentVolumeClaim; empty: none
  std::string token_secret = {};              // a Secret with the key "token"; empty: a new one
  std::string queue = {};                     // of Kueue; empty: none
  std::vector<std::string> node_labels = {};  // KEY=VALUE
  std::string folder = "/workspace";          // where the containers have job.yaml
  std::int64_t uid = 1000;                    // of all processes in the containers
  bool writable_root = false;
};

}  // namespace train
