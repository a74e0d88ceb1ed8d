// Decides how many pods a job gets, and what each of them claims. Pure.
#pragma once

#include "launcher/core/job_spec.h"
#include "launcher/kubernetes/options.h"
#include "lib/base/result.h"

namespace train {

struct PodPlan {
  int pods = 1;
  int workers = 1;          // of the whole run, at most
  int workers_per_pod = 1;  // at most
  Resources workers_claim;  // of those of one pod; gpu is a whole number
  int gpus = 0;             // of one pod
  bool operator==(const PodPlan&) const = default;
};

/// InvalidArgument: the options and the spec contradict each other, or leave the number open.
Result<PodPlan> plan_pods(const ScalingConfig& scaling, const KubernetesOptions& options);

}  // namespace train
