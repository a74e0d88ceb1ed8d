#include "launcher/kubernetes/manifests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "launcher/kubernetes/names.h"
#include "launcher/kubernetes/pod_template.h"
#include "launcher/spec/secrets.h"
#include "lib/base/exit_code.h"
#include "lib/base/store_url.h"
#include "lib/yaml/diagnostics.h"
#include "lib/yaml/emitter.h"
#include "lib/yaml/reader.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr const char* kNodes = "node";         // the JobSet's Jobs
constexpr const char* kLauncher = "launcher";  // …
constexpr std::size_t kHostNameMax = 63;
constexpr std::size_t kConfigMapMax = 1 << 20;
constexpr std::size_t kAnnotationMax = 256 << 10;  // in which kubectl apply keeps an object
constexpr const char* kDefaultStorage = "/results";
constexpr int kDrainMin_s = 60, kGraceMin_s = 120, kMargin_s = 30;

Error wrong(std::string message, std::string hint = {}) {
  return {Errc::InvalidArgument, std::move(message), std::move(hint)};
}

// ---- what the options and the spec must not say

Result<Unit> check_options(const KubernetesOptions& options) {
  TRY_VOID(check_image("--image", options.image));
  if (!options.in_namespace.empty()) TRY_VOID(check_label("--namespace", options.in_namespace));
  if (!options.storage_claim.empty())
    TRY_VOID(check_subdomain("--storage-claim", options.storage_claim));
  if (!options.token_secret.empty())
    TRY_VOID(check_subdomain("--token-secret", options.token_secret));
  if (!options.queue.empty()) {
    TRY_VOID(check_subdomain("--queue", options.queue));
    if (options.queue.size() > kHostNameMax)  // it becomes a label
      return wrong(fmt::format("--queue has {} characters, more than {}", options.queue.size(),
                               kHostNameMax));
    if (options.kind == KubernetesKind::Pool)
      return wrong("--queue is given, and a pool is no job that Kueue could queue",
                   "leave it out: runs wait for room in the pool by themselves");
  }
  for (const std::string& label : options.node_labels)
    if (auto parsed = parse_label("--node-label", label); !parsed) return parsed.error();
  return check_folder("--folder", options.folder);
}

/// Check the name of the objects. From it follow names of hosts, which have a limit.
Result<std::string> name_of(const KubernetesJob& job, int pods) {
  const bool given = !job.options.name.empty();
  // A file's name is no choice: make a name of it.
  std::string name = given ? job.options.name : job.named ? job.run : as_service_name(job.run);
  std::size_t ending = fmt::format("-{}", pods - 1).size();
  if (job.options.kind == KubernetesKind::JobSet)
    ending = std::max(fmt::format("-{}-0-{}-abcde", kNodes, pods - 1).size(),
                      fmt::format("-{}-0-0-abcde", kLauncher).size());
  if (job.options.kind == KubernetesKind::Pool) ending = std::string_view("-abcde").size();
  TRY_VOID(check_service_name(given ? "--name" : "the run's name", name, kHostNameMax - ending));
  return name;
}

/// Return the folder of the runs in the containers, or "" for an object store.
Result<std::string> storage_of(const KubernetesJob& job) {
  const std::string& path = job.parsed.spec.run_config.storage_path;
  const bool claimed = !job.options.storage_claim.empty();
  if (is_object_url(path)) {
    if (!claimed) return std::string();
    return wrong(fmt::format("--storage-claim is given, and run_config.storage_path is {}",
                             yaml::in_quotes(path)),
                 "leave one of them out");
  }
  if (path == std::string(kPodHome) + "/train_results") return std::string(kDefaultStorage);
  TRY_VOID(check_folder("run_config.storage_path", path));
  const std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
  constexpr std::array<std::string_view, 14> kTaken{
      "/bin",  "/dev",  "/dev/shm", "/etc", "/etc/trainrun", "/lib", "/lib64",
      "/proc", "/sbin", "/sys",     "/tmp", "/usr",          "/var", "/var/tmp"};
  const bool hides = (job.options.folder + "/").starts_with(folder + "/");
  if (hides || std::find(kTaken.begin(), kTaken.end(), folder) != kTaken.end())
    return wrong(
        fmt::format("run_config.storage_path is {}, and a volume there would hide what the "
                    "image has",
                    yaml::in_quotes(path)),
        "name a folder of its own, such as /results");
  return folder;
}

/// Check that the job can run in pods at all.
Result<Unit> check_spec(const KubernetesJob& job) {
  const JobSpec& spec = job.parsed.spec;
  if (spec.run_config.user)
    return wrong("run_config.user is given, and all processes of the pods run as one user",
                 "remove it, and say --uid");
  if (job.options.kind == KubernetesKind::Pool) return Unit{};
  if (job.parsed.spec.backend == Backend::Torchft)
    return wrong("backend is torchft, and a job of Kubernetes is one run",
                 "start train-run in a pod, against a pool (--kind pool)");
  if (job.parsed.sweep)
    return wrong("the spec has the section sweep, and a job of Kubernetes is one run",
                 "start train-run sweep in a pod, against a pool (--kind pool)");
  if (!spec.cluster.tls.empty())
    return wrong("cluster.tls names certificates, and the pods share a token",
                 "remove it, or add --set cluster.tls=");
  return Unit{};
}

// ---- the commands of the pods

json::array words(std::initializer_list<std::string> list) {
  json::array array;
  for (const std::string& word : list) array.push_back(json::string(argument(word)));
  return array;
}

/// Return what train-run is told about the run in the pods.
void add_run(json::array& command, const KubernetesJob& job, const PodContext& context) {
  const ScalingConfig& scaling = job.parsed.spec.scaling_config;
  const auto add = [&](const std::string& word) {
    command.push_back(json::string(argument(word)));
  };
  for (const std::string& override : job.overrides) {
    add("--set");
    add(override);
  }
  if (!job.named)  // a name with a time would make each start another run
    for (const std::string& word : {std::string("--name"), context.name}) add(word);
  if (context.storage == kDefaultStorage)
    for (const std::string& word : {std::string("--storage"), context.storage}) add(word);
  const int workers = context.plan.workers, per_pod = context.plan.workers_per_pod;
  if (scaling.num_workers.automatic) {
    add("--set");
    add(fmt::format("scaling_config.num_workers={}", workers));
  }
  // A pod may see more cores than it claims: as many workers as the plan has for it, no more.
  const bool even = scaling.num_workers.automatic ? workers % per_pod == 0
                                                  : scaling.num_workers.min % per_pod == 0 &&
                                                        scaling.num_workers.max % per_pod == 0;
  const bool each_alike = scaling.label_selector.size() <= 1;
  if (scaling.workers_per_node == 0 && context.plan.pods > 1 && even && each_alike &&
      scaling.placement_strategy == PlacementStrategy::Pack) {
    add("--set");
    add(fmt::format("scaling_config.workers_per_node={}", per_pod));
  }
  add(job.options.folder + "/job.yaml");
}

/// Return the options of the pods' traind, but for those that say which launchers it serves.
std::vector<std::string> traind_options(const PodContext& context) {
  std::vector<std::string> options{"--health", fmt::format(":{}", kHealthPort), "--drain-grace",
                                   fmt::format("{}s", context.drain_s)};
  for (const auto& [name, amount] : context.plan.workers_claim.custom)
    options.insert(options.end(), {"--resource", fmt::format("{}={}", name, amount)});
  return options;
}

json::array member_command(const KubernetesJob& job, const PodContext& context) {
  json::array command =
      words({"train-run", "--member", fmt::format("dns:{}:{}", context.name, kTrainPort),
             "--traind-options", fmt::format("{}", fmt::join(traind_options(context), " "))});
  add_run(command, job, context);
  return command;
}

json::array launcher_command(const KubernetesJob& job, const PodContext& context) {
  json::array command = words({"train-run", "--hosts-file", kHostsFile});
  add_run(command, job, context);
  return command;
}

json::array node_command(const PodContext& context) {
  json::array command = words({"traind", "--listen", fmt::format(":{}", kTrainPort)});
  for (const std::string& option : traind_options(context))
    command.push_back(json::string(argument(option)));
  if (context.options.kind == KubernetesKind::Pool) {
    command.push_back("--node-name");
    command.push_back("$(NODE_NAME)");  // which Kubernetes replaces
    return command;
  }
  // After a drain, it exits with 75, so that another pod replaces this one.
  for (const char* word : {"--end-with-run", "--run-within", "24h"}) command.push_back(word);
  return command;
}

// ---- the objects

json::object metadata(const PodContext& context, const std::string& name) {
  json::object all{{"name", name}};
  if (!context.options.in_namespace.empty()) all["namespace"] = context.options.in_namespace;
  all["labels"] = json::object{{"app.kubernetes.io/name", context.name},
                               {"app.kubernetes.io/managed-by", "train-run"}};
  return all;
}

json::object object_of(const char* version, const char* kind, json::object metadata) {
  return {{"apiVersion", version}, {"kind", kind}, {"metadata", std::move(metadata)}};
}

/// Return the Secret, unless the user has one. `token`: of it.
json::object secret(const PodContext& context, const std::string& token) {
  json::object secret = object_of("v1", "Secret", metadata(context, context.secret));
  secret["type"] = "Opaque";
  secret["stringData"] = json::object{{"token", token}};
  return secret;
}

std::string hosts_of(const PodContext& context) {
  std::string hosts;
  for (int pod = 0; pod < context.plan.pods; ++pod)
    hosts += fmt::format("{0}-{1}-0-{2}.{0}:{3}\n", context.name, kNodes, pod, kTrainPort);
  return hosts;
}

Result<json::object> config_map(const KubernetesJob& job, const PodContext& context) {
  json::object map = object_of("v1", "ConfigMap", metadata(context, context.name + "-job"));
  json::object data{{"job.yaml", job.text.ends_with('\n') ? job.text : job.text + "\n"}};
  if (job.options.kind == KubernetesKind::JobSet) data["hosts"] = hosts_of(context);
  std::size_t bytes = 0;
  for (const auto& [key, value] : data) bytes += key.size() + value.as_string().size();
  if (bytes > kConfigMapMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("the ConfigMap with the spec{} has {} bytes, more than {}",
                             data.size() > 1 ? " and the pods' names" : "", bytes, kConfigMapMax),
                 "keep data in files of the image, and name them in the spec"};
  map["data"] = std::move(data);
  return map;
}

/// The addresses of the pods, also of those that are not ready: a traind that drains is still
/// asked.
json::object service(const PodContext& context) {
  json::object service = object_of("v1", "Service", metadata(context, context.name));
  service["spec"] = json::object{
      {"clusterIP", "None"},
      {"publishNotReadyAddresses", true},
      {"selector", pod_labels(context, PodRole::Node)},
      {"ports", json::array{json::object{
                    {"name", "trainrun"}, {"port", kTrainPort}, {"targetPort", "trainrun"}}}}};
  return service;
}

/// An interruption from outside, and a run that was asked to stop by a signal, go on in another
/// pod, and count as no failure. A bug, and what no second try can mend, end the job.
json::object pod_failure_policy() {
  json::object disrupted{
      {"action", "Ignore"},
      {"onPodConditions",
       // Kubernetes before 1.35 requires the status.
       json::array{json::object{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
  const auto on_codes = [](const char* action, json::array codes) {
    return json::object{{"action", action},
                        {"onExitCodes", json::object{{"containerName", "trainrun"},
                                                     {"operator", "In"},
                                                     {"values", std::move(codes)}}}};
  };
  return {{"rules", json::array{disrupted, on_codes("Ignore", {exit_code::kRequeue}),
                                on_codes("FailJob", {exit_code::kUsage, exit_code::kBug,
                                                     exit_code::kBadSpec})}}};
}

/// `pods`: all at the same time, each with its index.
json::object job_spec(const KubernetesJob& job, int pods, json::object pod) {
  const int failures = job.parsed.spec.run_config.failure_config.max_failures;
  return {{"completionMode", "Indexed"},
          {"completions", pods},
          {"parallelism", pods},
          {"backoffLimit", failures == kUnlimited ? std::numeric_limits<int>::max() : failures},
          {"podFailurePolicy", pod_failure_policy()},
          {"template", std::move(pod)}};
}

json::object queued(json::object metadata, const KubernetesOptions& options) {
  if (!options.queue.empty())
    metadata["labels"].as_object()["kueue.x-k8s.io/queue-name"] = options.queue;
  return metadata;
}

json::object indexed_job(const KubernetesJob& job, const PodContext& context) {
  json::object object =
      object_of("batch/v1", "Job", queued(metadata(context, context.name), job.options));
  object["spec"] = job_spec(job, context.plan.pods,
                            pod_template(context, PodRole::Member, member_command(job, context)));
  // The run has ended well once its launcher has.
  object["spec"].as_object()["successPolicy"] =
      json::object{{"rules", json::array{json::object{{"succeededIndexes", "0"}}}}};
  return object;
}

json::object job_set(const KubernetesJob& job, const PodContext& context) {
  const auto replicated = [&](const char* name, int pods, PodRole role, json::array command) {
    return json::object{
        {"name", name},
        {"replicas", 1},
        {"template",
         json::object{
             {"spec", job_spec(job, pods, pod_template(context, role, std::move(command)))}}}};
  };
  json::object object = object_of("jobset.x-k8s.io/v1alpha2", "JobSet",
                                  queued(metadata(context, context.name), job.options));
  object["spec"] = json::object{
      {"network", json::object{{"enableDNSHostnames", true},
                               {"subdomain", context.name},
                               {"publishNotReadyAddresses", true}}},
      {"successPolicy",
       json::object{{"operator", "All"}, {"targetReplicatedJobs", json::array{kLauncher}}}},
      {"replicatedJobs",
       json::array{replicated(kNodes, context.plan.pods, PodRole::Node, node_command(context)),
                   replicated(kLauncher, 1, PodRole::Launcher, launcher_command(job, context))}}};
  return object;
}

json::object daemon_set(const PodContext& context) {
  json::object set = object_of("apps/v1", "DaemonSet", metadata(context, context.name));
  set["spec"] = json::object{
      {"selector", json::object{{"matchLabels", pod_labels(context, PodRole::Node)}}},
      {"updateStrategy", json::object{{"type", "OnDelete"}}},  // an update would stop all runs
      {"template", pod_template(context, PodRole::Node, node_command(context))}};
  return set;
}

/// At most one pod is evicted at a time. A DaemonSet has no scale, so this must be a number.
json::object disruption_budget(const PodContext& context) {
  json::object budget =
      object_of("policy/v1", "PodDisruptionBudget", metadata(context, context.name));
  budget["spec"] =
      json::object{{"minAvailable", std::max(1, context.plan.pods - 1)},
                   {"selector", json::object{{"matchLabels", pod_labels(context, PodRole::Node)}}}};
  return budget;
}

/// Only the pool's pods, and launchers' that have its label, reach it. Workers talk at ports that
/// the system picks.
json::object network_policy(const PodContext& context) {
  json::object policy =
      object_of("networking.k8s.io/v1", "NetworkPolicy", metadata(context, context.name));
  const json::object own{{"matchLabels", json::object{{"app.kubernetes.io/name", context.name}}}};
  policy["spec"] = json::object{
      {"podSelector", own},
      {"policyTypes", json::array{"Ingress"}},
      {"ingress",
       json::array{json::object{{"from", json::array{json::object{{"podSelector", own}}}}}}}};
  return policy;
}

// ---- what the user has to know

std::vector<std::string> notes_of(const KubernetesJob& job, const PodContext& context,
                                  std::size_t job_bytes) {
  std::vector<std::string> notes;
  if (job.options.token_secret.empty())
    notes.push_back(fmt::format(
        "the Secret {} has a new token: whoever reads this output can start programs in the pods. "
        "Keep it to yourself, or name a Secret of yours by --token-secret",
        context.secret));
  else
    notes.push_back(fmt::format(
        "the pods read the key \"token\" of the Secret {}, which must exist", context.secret));
  if (job.options.kind == KubernetesKind::Pool) return notes;
  if (!context.storage.empty() && job.options.storage_claim.empty())
    notes.push_back(fmt::format(
        "the run's folder, in {}, is lost with its pod: name a PersistentVolumeClaim by "
        "--storage-claim, or an object store by run_config.storage_path",
        context.storage));
  std::vector<std::string> references, literals;
  for (const auto& [name, value] : job.parsed.spec.env) {
    if (spec::secret_reference(value))
      references.push_back("env." + name);
    else if (spec::names_a_secret_value(name))
      literals.push_back("env." + name);
  }
  if (!references.empty())
    notes.push_back(
        fmt::format("{} refer to variables or files of the pods, which the image or the manifest "
                    "must give them",
                    fmt::join(references, ", ")));
  if (!literals.empty())
    notes.push_back(fmt::format("the ConfigMap {}-job shows what {} spell out: use references",
                                context.name, fmt::join(literals, ", ")));
  if (job_bytes > kAnnotationMax)
    notes.push_back(
        "the ConfigMap is too large for kubectl apply: use kubectl apply --server-side");
  return notes;
}

}  // namespace

SpecOverride nodes_of_kubernetes() { return {"cluster.dns=pods", "--kind"}; }

std::variant<ParsedSpec, std::string> parse_in_pods(const std::string& path,
                                                    const std::string& text,
                                                    const std::vector<std::string>& overrides,
                                                    const std::string& folder) {
  yaml::Tree tree;
  yaml::Diagnostics mistakes;
  const yaml::Node* root = tree.parse(tree.add_source(path, text), mistakes);
  if (root != nullptr && root->is(yaml::Node::Kind::Map) && root->find("extends") != nullptr) {
    mistakes.error(root->find("extends")->at, "the pods get this file only, and it extends another",
                   "copy what is needed from there");
    return mistakes.error_text();
  }
  SpecSource source{.path = folder + "/job.yaml",
                    .environment = {{"HOME", kPodHome}},
                    .home = kPodHome,
                    .current_dir = "/"};
  source.overrides.push_back(nodes_of_kubernetes());
  for (const std::string& override : overrides) source.overrides.emplace_back(override);
  return parse_job_spec_text(text, source);
}

Result<KubernetesManifests> kubernetes_manifests(const KubernetesJob& job) {
  const KubernetesOptions& options = job.options;
  TRY_VOID(check_options(options));
  TRY_VOID(check_spec(job));
  PodContext context{
      .options = options, .plan = {}, .name = {}, .storage = {}, .secret = options.token_secret};
  TRY(context.plan, plan_pods(job.parsed.spec.scaling_config, options));
  TRY(context.name, name_of(job, context.plan.pods));
  TRY(context.storage, storage_of(job));
  if (context.secret.empty()) context.secret = context.name + "-token";
  const auto stop_grace =
      std::chrono::ceil<std::chrono::seconds>(job.parsed.spec.run_config.failure_config.stop_grace);
  context.drain_s = std::max(kDrainMin_s, static_cast<int>(stop_grace.count()) + kMargin_s);
  context.grace_s = std::max(kGraceMin_s, context.drain_s + kMargin_s);

  std::vector<yaml::Document> documents;
  const auto add = [&](json::object object, std::string comment = {}) {
    documents.push_back({std::move(comment), std::move(object)});
  };
  if (options.token_secret.empty()) add(secret(context, job.token), "The cluster's shared secret.");
  if (options.kind == KubernetesKind::Pool) {
    add(service(context));
    add(network_policy(context));
    add(disruption_budget(context));
    add(daemon_set(context));
  } else {
    TRY(json::object map, config_map(job, context));
    add(std::move(map));
    if (options.kind == KubernetesKind::Job) {
      add(service(context));
      add(indexed_job(job, context));
    } else {
      add(job_set(job, context));  // whose controller makes the Service
    }
  }
  documents.front().comment = "Made by train-run k8s.";
  KubernetesManifests made;
  TRY(made.yaml, yaml::emit(documents));
  made.notes = notes_of(job, context, job.text.size());
  return made;
}

}  // namespace train
