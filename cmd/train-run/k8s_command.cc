// k8s: prints the objects with which Kubernetes runs a job.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/options.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/kubernetes/manifests.h"
#include "lib/base/print.h"
#include "lib/net/token.h"

namespace train {
namespace {

constexpr std::array kKinds{std::pair("job", KubernetesKind::Job),
                            std::pair("jobset", KubernetesKind::JobSet),
                            std::pair("pool", KubernetesKind::Pool)};

}  // namespace

void add_k8s_options(CLI::App* command, K8sCommand& k8s) {
  KubernetesOptions& options = k8s.options;
  command->add_option("job", k8s.job.path, "The job's YAML file")->required();
  command
      ->add_option(
          "--set", k8s.job.overrides,
          "KEY.PATH=VALUE: override a value of the spec, also in the pods; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--image", options.image, "The image of the containers")->required();
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : kKinds) kinds.emplace_back(name);
  command
      ->add_option("--kind", k8s.kind,
                   "job: an indexed Job, whose first pod launches (default); jobset: a JobSet with "
                   "pods of traind and one that launches; pool: a traind on each machine, for many "
                   "runs")
      ->check(CLI::IsMember(kinds));
  command->add_option("--name", options.name, "The name of the objects (default: the run's)");
  command->add_option("--namespace", options.in_namespace,
                      "Their namespace (default: that of kubectl)");
  command
      ->add_option("--nodes", options.nodes,
                   "How many pods (default: as many as the workers need); of a pool, how many "
                   "machines")
      ->check(CLI::Range(1, kPodsMax));
  command
      ->add_option("--gpus-per-node", options.gpus_per_node,
                   "The GPUs of each pod (default: those of its workers)")
      ->check(CLI::Range(1, kGpusPerPodMax));
  command->add_option("--storage-claim", options.storage_claim,
                      "A PersistentVolumeClaim for run_config.storage_path (ReadWriteMany)");
  command->add_option("--token-secret", options.token_secret,
                      "A Secret whose key \"token\" the pods share (default: a new one)");
  command->add_option("--queue", options.queue, "The LocalQueue of Kueue");
  command
      ->add_option("--node-label", options.node_labels,
                   "KEY=VALUE: only machines with this label; may be repeated")
      ->allow_extra_args(false);
  command->add_option(
      "--folder", options.folder,
      "The folder of the containers in which job.yaml will be, where relative paths "
      "of the spec start (default /workspace)");
  command
      ->add_option("--uid", options.uid, "The user and the group of all processes (default 1000)")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command->add_flag("--writable-root", options.writable_root,
                    "Let programs write everywhere in the containers");
}

int k8s_command(K8sCommand k8s) {
  for (const auto& [name, kind] : kKinds)
    if (k8s.kind == name) k8s.options.kind = kind;
  for (const std::string& text : k8s.job.overrides)
    for (const char* key :
         {"cluster.nodes=", "cluster.hosts_file=", "cluster.dns=", "cluster.ssh."})
      if (text.starts_with(key)) {
        print_error({Errc::InvalidArgument,
                     fmt::format("--set {} names nodes, and the pods are the job's nodes", text),
                     "leave it out"});
        return exit_code::kUsage;
      }
  k8s.job.implied.push_back(nodes_of_kubernetes());
  SpecSource source;
  auto here = parse_job(k8s.job, &source);
  if (!here) return exit_code::kBadSpec;
  auto in_pods = parse_in_pods(k8s.job.path, here->text, k8s.job.overrides, k8s.options.folder);
  if (const auto* mistakes = std::get_if<std::string>(&in_pods)) {
    print_err(
        "{}train-run: error: the pods would refuse this spec, for the reasons above: they have "
        "other files and variables than this machine\n",
        Lines{*mistakes});
    return exit_code::kBadSpec;
  }
  const std::string& run = here->spec.run_config.name;
  const bool named = !run.ends_with(source.timestamp);
  const auto made = kubernetes_manifests(
      {.options = k8s.options,
       .text = here->text,
       .overrides = k8s.job.overrides,
       .parsed = std::move(std::get<ParsedSpec>(in_pods)),
       .run = named ? run : run.substr(0, run.size() - source.timestamp.size() - 1),
       .named = named,
       .token = std::string(Token::generate().bytes())});
  if (!made) {
    print_error(made.error());
    return made.error().code == Errc::InvalidArgument ? exit_code::kUsage : exit_code::kBadSpec;
  }
  for (const std::string& note : made->notes) print_err("train-run: note: {}\n", note);
  print_out("{}", Lines{made->yaml});
  return 0;
}

}  // namespace train
