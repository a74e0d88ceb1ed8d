// Makes the objects with which Kubernetes runs a job (`train-run k8s`), or a pool of nodes that
// many runs use. Pure: the texts are arguments.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/kubernetes/options.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/result.h"

namespace train {

struct KubernetesJob {
  KubernetesOptions options;
  std::string text;                         // of job.yaml
  std::vector<std::string> overrides = {};  // --set
  ParsedSpec parsed = {};                   // as the pods read it: parse_in_pods()
  std::string run = {};                     // the run's name, or what its file is called
  bool named = false;                       // the spec gives the name
  std::string token = {};                   // for a new Secret
};

struct KubernetesManifests {
  std::string yaml;
  std::vector<std::string> notes;  // what the user has to know
};

/// Return what stands for the pods while a spec is parsed: they are the nodes, whatever it names.
SpecOverride nodes_of_kubernetes();

/// Parse the spec as train-run will in the pods: with job.yaml in their folder, and without the
/// variables of this machine. Return its mistakes there as one text, ready to print. `path`: of the
/// file here.
std::variant<ParsedSpec, std::string> parse_in_pods(const std::string& path,
                                                    const std::string& text,
                                                    const std::vector<std::string>& overrides,
                                                    const std::string& folder);

/// InvalidArgument, InvalidSpec: Kubernetes would refuse the objects, or the job could not run.
Result<KubernetesManifests> kubernetes_manifests(const KubernetesJob& job);

}  // namespace train
