#include "launcher/kubernetes/pod_template.h"

#include <fmt/format.h>

#include <cmath>

#include "launcher/kubernetes/names.h"

namespace train {
namespace {

namespace json = boost::json;

/// What train-run, traind and supervisors need beside the workers.
constexpr std::uint64_t kOwnMemory = 512ull << 20;

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{}Mi", (bytes + (1 << 20) - 1) >> 20);
}

/// Return what the container claims. Where no GPUs bound the number of workers, a limit of CPUs
/// does, from which traind knows how many the pod has.
json::object resources(const PodPlan& plan, PodRole role) {
  if (role == PodRole::Launcher) return {{"requests", {{"cpu", "1"}, {"memory", "1024Mi"}}}};
  const double cores = std::ceil(plan.workers_claim.cpu);
  json::object requests{{"cpu", cores > 0 ? fmt::format("{:.0f}", cores) : "100m"}}, limits;
  if (plan.gpus == 0 && cores > 0) limits["cpu"] = requests["cpu"];
  if (plan.workers_claim.memory_bytes > 0) {
    requests["memory"] = mebibytes(plan.workers_claim.memory_bytes + kOwnMemory);
    limits["memory"] = requests["memory"];
  }
  if (plan.gpus > 0) limits["nvidia.com/gpu"] = fmt::format("{}", plan.gpus);
  json::object all{{"requests", std::move(requests)}};
  if (!limits.empty()) all["limits"] = std::move(limits);
  return all;
}

json::object probe(const char* path, int period_s, int failures) {
  return {{"httpGet", {{"path", path}, {"port", "health"}}},
          {"periodSeconds", period_s},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

void add_probes(json::object& container) {
  container["startupProbe"] = probe("/-/healthy", 2, 60);
  container["readinessProbe"] = probe("/-/ready", 5, 2);
  container["livenessProbe"] = probe("/-/healthy", 10, 12);
}

/// The volumes of a pod, and where its container has them.
struct Volumes {
  json::array volumes, mounts;

  void add(const char* name, const char* kind, json::object source) {
    volumes.push_back(json::object{{"name", name}, {kind, std::move(source)}});
  }
  /// `file`: the only one of the volume to mount, at this path; empty: all.
  void mount(const char* name, std::string_view path, std::string_view file = {}) {
    json::object mount{{"name", name}, {"mountPath", path}};
    if (!file.empty()) mount["subPath"] = file;
    if (!file.empty() || path == kSecretFolder) mount["readOnly"] = true;
    mounts.push_back(std::move(mount));
  }
};

Volumes volumes_of(const PodContext& context, PodRole role) {
  Volumes all;
  all.add("token", "secret", {{"secretName", context.secret}, {"defaultMode", 0440}});
  all.mount("token", kSecretFolder);
  if (role != PodRole::Node) {
    all.add("job", "configMap", {{"name", context.name + "-job"}});
    all.mount("job", context.options.folder + "/job.yaml", "job.yaml");
    if (role == PodRole::Launcher) all.mount("job", kHostsFile, "hosts");
  }
  all.add("tmp", "emptyDir", {});
  all.mount("tmp", kPodHome);
  all.add("spool", "emptyDir", {});
  all.mount("spool", "/var/tmp");
  if (role != PodRole::Launcher) {
    all.add("shm", "emptyDir", {{"medium", "Memory"}});
    all.mount("shm", "/dev/shm");
  }
  const std::string& claim = context.options.storage_claim;
  if (context.storage.empty() || (claim.empty() && role == PodRole::Node)) return all;
  if (claim.empty())
    all.add("storage", "emptyDir", {});
  else
    all.add("storage", "persistentVolumeClaim", {{"claimName", claim}});
  all.mount("storage", context.storage);
  return all;
}

json::array environment(const PodContext& context, PodRole role) {
  json::array variables;
  const auto set = [&](const char* name, const std::string& value) {
    variables.push_back(json::object{{"name", name}, {"value", value}});
  };
  set("HOME", kPodHome);  // the user has no entry in the image's /etc/passwd
  set("TRAINRUN_TOKEN_FILE", fmt::format("{}/token", kSecretFolder));
  if (role == PodRole::Node && context.options.kind == KubernetesKind::Pool)
    variables.push_back(json::object{
        {"name", "NODE_NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}}}});
  return variables;
}

json::object container(const PodContext& context, PodRole role, json::array command,
                       const Volumes& volumes) {
  json::object container{{"name", "trainrun"},
                         {"image", context.options.image},
                         {"command", std::move(command)},
                         {"env", environment(context, role)},
                         {"resources", resources(context.plan, role)}};
  if (role != PodRole::Launcher) {
    container["ports"] =
        json::array{json::object{{"name", "trainrun"}, {"containerPort", kTrainPort}},
                    json::object{{"name", "health"}, {"containerPort", kHealthPort}}};
    add_probes(container);
  }
  container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                  {"readOnlyRootFilesystem", !context.options.writable_root},
                                  {"capabilities", {{"drop", json::array{"ALL"}}}}};
  container["volumeMounts"] = volumes.mounts;
  return container;
}

}  // namespace

std::string argument(std::string_view word) {
  std::string text;
  for (const char c : word) text += c == '$' ? "$$" : std::string(1, c);
  return text;
}

json::object pod_labels(const PodContext& context, PodRole role) {
  return {{"app.kubernetes.io/name", context.name},
          {"app.kubernetes.io/component", role == PodRole::Launcher ? "launcher" : "node"}};
}

json::object pod_template(const PodContext& context, PodRole role, json::array command) {
  const KubernetesOptions& options = context.options;
  const Volumes volumes = volumes_of(context, role);
  json::object spec{{"restartPolicy", options.kind == KubernetesKind::Pool ? "Always" : "Never"},
                    {"terminationGracePeriodSeconds", context.grace_s},
                    {"automountServiceAccountToken", false},
                    {"enableServiceLinks", false}};
  if (options.kind == KubernetesKind::Job) spec["subdomain"] = context.name;
  if (role != PodRole::Launcher && !options.node_labels.empty()) {
    json::object selector;
    for (const std::string& label : options.node_labels) {
      auto parsed = parse_label("--node-label", label);
      if (parsed) selector[parsed->first] = parsed->second;
    }
    spec["nodeSelector"] = std::move(selector);
  }
  if (role != PodRole::Launcher && context.plan.gpus > 0)
    spec["tolerations"] = json::array{
        json::object{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}}};
  spec["securityContext"] = {{"runAsNonRoot", true},
                             {"runAsUser", options.uid},
                             {"runAsGroup", options.uid},
                             {"fsGroup", options.uid},
                             {"fsGroupChangePolicy", "OnRootMismatch"},
                             {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  spec["containers"] = json::array{container(context, role, std::move(command), volumes)};
  spec["volumes"] = volumes.volumes;
  return {{"metadata",
           {{"labels", pod_labels(context, role)},
            {"annotations", {{"cluster-autoscaler.kubernetes.io/safe-to-evict", "false"}}}}},
          {"spec", std::move(spec)}};
}

}  // namespace train
