#include "launcher/spec/spec_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/core/peer_ports.h"
#include "launcher/core/ssh_hosts.h"
#include "launcher/spec/fields.h"
#include "lib/base/store_url.h"
#include "lib/yaml/cursor.h"
#include "lib/yaml/diagnostics.h"
#include "lib/yaml/scalar.h"

namespace train::spec {
namespace {

const Origin& nearest_origin(const Reading& reading, std::string_view path,
                             const Origin& otherwise) {
  const Origin* origin = reading.given(path);
  return origin == nullptr ? otherwise : *origin;
}

/// Return "raise max_workers (line 15)", or only the text if the value is a default.
std::string with_location(const Reading& reading, const yaml::Position& here, std::string_view what,
                          std::string_view path) {
  const Origin* origin = reading.given(path);
  return origin == nullptr ? std::string(what)
                           : fmt::format("{} ({})", what, origin->at.seen_from(here));
}

void check_gpus(Reading& reading, JobSpec& spec) {
  constexpr std::string_view kUse = "scaling_config.use_gpu";
  constexpr std::string_view kGpu = "scaling_config.resources_per_worker.GPU";
  ScalingConfig& scaling = spec.scaling_config;
  const Origin* gpu = reading.given(kGpu);
  if (gpu == nullptr) {
    scaling.resources_per_worker.gpu = scaling.use_gpu ? 1 : 0;
  } else if (!scaling.use_gpu && scaling.resources_per_worker.gpu > 0) {
    reading.diagnostics.error(
        gpu->at,
        fmt::format("{} is {}, and {} is false", kGpu, scaling.resources_per_worker.gpu, kUse),
        with_location(reading, gpu->at, "remove it, or set use_gpu: true", kUse));
  } else if (scaling.use_gpu && scaling.resources_per_worker.gpu == 0) {
    reading.diagnostics.error(
        gpu->at, fmt::format("{} is 0, and {} is true", kGpu, kUse),
        with_location(reading, gpu->at, "remove it, or set use_gpu: false", kUse));
  }
  if (const Origin* collectives = reading.given("backend_config.collectives");
      collectives != nullptr && spec.collectives == "nccl" && !scaling.use_gpu) {
    reading.diagnostics.error(
        collectives->at, fmt::format("backend_config.collectives is nccl, and {} is false", kUse),
        with_location(reading, collectives->at, "write gloo or auto, or set use_gpu: true", kUse));
  }
}

/// With num_workers: 0 there is no launcher, which would do what these keys ask for.
void check_no_workers(Reading& reading, const JobSpec& spec) {
  constexpr std::string_view kWorkers = "scaling_config.num_workers";
  if (!spec.scaling_config.num_workers.none()) return;
  const auto cannot = [&](bool asked, std::string_view key) {
    const Origin* at = reading.given(std::string(key));
    if (!asked || at == nullptr) return;
    reading.diagnostics.error(
        at->at,
        fmt::format("{} needs train-run, and with num_workers: 0 the program runs in its place",
                    key),
        with_location(reading, at->at, "remove it, or ask for a worker", kWorkers));
  };
  cannot(spec.backend != Backend::Torch && spec.backend != Backend::None, "backend");
  cannot(!spec.resume_from_checkpoint.empty(), "resume_from_checkpoint");
  cannot(is_object_url(spec.run_config.storage_path), "run_config.storage_path");
  cannot(true, "run_config.user");
  std::string idle;
  for (const std::string_view key :
       {"setup", "per_node_setup", "ship", "run_config.stop", "run_config.callbacks",
        "run_config.notify", "run_config.rlimits", "run_config.checkpoint_config.num_to_keep"})
    if (reading.given(key) != nullptr) idle += fmt::format("{}{}", idle.empty() ? "" : ", ", key);
  if (!idle.empty())
    reading.diagnostics.warning(
        reading.given(kWorkers)->at,
        fmt::format("with {}: 0, these have no effect: {}", kWorkers, idle));
}

void check_workers_per_node(Reading& reading, const ScalingConfig& scaling) {
  constexpr std::string_view kKey = "scaling_config.workers_per_node";
  constexpr std::string_view kStrategy = "scaling_config.placement_strategy";
  const int per_node = scaling.workers_per_node;
  const Origin* at = reading.given(kKey);
  if (per_node == 0 || at == nullptr) return;
  if (scaling.num_workers.automatic)
    return reading.diagnostics.error(
        at->at, fmt::format("{} is {}, and scaling_config.num_workers is auto", kKey, per_node),
        with_location(reading, at->at, "remove one of the two", "scaling_config.num_workers"));
  for (const int workers : {scaling.num_workers.min, scaling.num_workers.max}) {
    if (workers % per_node == 0) continue;
    reading.diagnostics.error(
        at->at,
        fmt::format("{} is {}, and scaling_config.num_workers is {}, which "
                    "is no multiple of it",
                    kKey, per_node, workers),
        with_location(reading, at->at, "change one of the two", "scaling_config.num_workers"));
    break;
  }
  if (const Origin* strategy = reading.given(kStrategy);
      strategy != nullptr && scaling.placement_strategy != PlacementStrategy::Pack)
    reading.diagnostics.error(strategy->at,
                              fmt::format("{} cannot be used with {}", kStrategy, kKey),
                              with_location(reading, strategy->at, "remove one of the two", kKey));
}

void check_selectors(Reading& reading, const ScalingConfig& scaling) {
  if (scaling.num_workers.none()) return;  // no node is looked for
  constexpr std::string_view kKey = "scaling_config.label_selector";
  const Origin* at = reading.given(kKey);
  const std::size_t count = scaling.label_selector.size();
  if (at == nullptr || count <= 1) return;
  const auto cannot = [&](std::string what, std::string_view other) {
    reading.diagnostics.error(
        at->at, fmt::format("{} has {} selectors, one for each worker, {}", kKey, count, what),
        with_location(reading, at->at, "write one mapping for all workers", other));
  };
  if (scaling.workers_per_node > 0)
    cannot("and scaling_config.workers_per_node is given", "scaling_config.workers_per_node");
  else if (scaling.num_workers.automatic)
    cannot("and scaling_config.num_workers is auto", "scaling_config.num_workers");
  else if (std::cmp_not_equal(count, scaling.num_workers.max))
    cannot(fmt::format("and scaling_config.num_workers is {}", scaling.num_workers.max),
           "scaling_config.num_workers");
}

void check_gpu_choice(Reading& reading, const ScalingConfig& scaling) {
  constexpr std::string_view kUse = "scaling_config.use_gpu";
  if (const Origin* at = reading.given("scaling_config.gpus");
      at != nullptr && !scaling.gpus.empty() && !scaling.use_gpu)
    reading.diagnostics.error(
        at->at, fmt::format("scaling_config.gpus is given, and {} is false", kUse),
        with_location(reading, at->at, "remove it, or set use_gpu: true", kUse));
}

void check_backend(Reading& reading, const JobSpec& spec) {
  struct Key {
    std::string_view path;
    Backend backend;
  };
  constexpr std::array kKeys{Key{"backend_config.collectives", Backend::Torch},
                             Key{"backend_config.timeout", Backend::Torch},
                             Key{"backend_config.deterministic", Backend::Torch},
                             Key{"backend_config.pmi", Backend::Mpi},
                             Key{"backend_config.publish", Backend::Custom},
                             Key{"backend_config.on_start", Backend::Custom},
                             Key{"backend_config.on_training_start", Backend::Custom},
                             Key{"backend_config.on_shutdown", Backend::Custom},
                             Key{"backend_config.hook_timeout", Backend::Custom},
                             Key{"backend_config.ports", Backend::Custom},
                             Key{"backend_config.replica_groups", Backend::Torchft},
                             Key{"backend_config.min_replicas", Backend::Torchft},
                             Key{"backend_config.lighthouse", Backend::Torchft}};
  for (const Key& key : kKeys) {
    const Origin* given = reading.given(key.path);
    if (given == nullptr || spec.backend == key.backend) continue;
    // The workers of a replica group find each other as those of torch do.
    if (key.backend == Backend::Torch && spec.backend == Backend::Torchft) continue;
    reading.diagnostics.error(
        given->at, fmt::format("{} is given, and backend is {}", key.path, to_text(spec.backend)),
        with_location(reading, given->at,
                      fmt::format("remove it, or write backend: {}", to_text(key.backend)),
                      "backend"));
  }
  constexpr std::string_view kStandby = "scaling_config.standby_workers";
  if (const Origin* standby = reading.given(kStandby);
      standby != nullptr && spec.backend == Backend::Mpi && spec.scaling_config.standby_workers > 0)
    reading.diagnostics.error(
        standby->at, fmt::format("{} cannot be used with backend: mpi", kStandby),
        with_location(reading, standby->at, "remove it: MPI's socket is opened with the process",
                      "backend"));
  if (spec.scaling_config.num_workers.automatic) return;  // train-run looks again when it is known
  const Origin* count = reading.given("scaling_config.num_workers");
  if (const auto few = check_peers(spec, spec.scaling_config.num_workers.max); !few && count)
    reading.diagnostics.error(count->at, few.error().message, few.error().hint);
}

void check_groups(Reading& reading, const JobSpec& spec) {
  const Origin* backend = reading.given("backend");
  if (spec.backend != Backend::Torchft || backend == nullptr) return;
  const BackendConfig& config = spec.backend_config;
  if (config.replica_groups == 0)
    reading.diagnostics.error(backend->at,
                              "backend is torchft, and backend_config.replica_groups is not given",
                              "write backend_config: {replica_groups: 4}");
  if (const Origin* least = reading.given("backend_config.min_replicas");
      least != nullptr && config.min_replicas > config.replica_groups && config.replica_groups > 0)
    reading.diagnostics.error(
        least->at,
        fmt::format("backend_config.min_replicas is {}, more than replica_groups, which is {}",
                    config.min_replicas, config.replica_groups),
        with_location(
            reading, least->at,
            fmt::format("lower it to {} or less, or raise replica_groups", config.replica_groups),
            "backend_config.replica_groups"));
  if (const Origin* count = reading.given("scaling_config.num_workers");
      count != nullptr && spec.scaling_config.num_workers.automatic)
    reading.diagnostics.error(
        count->at, "scaling_config.num_workers is auto, and backend is torchft",
        with_location(reading, count->at, "write how many workers one replica group has",
                      "backend"));
  for (const std::string_view name : {"REPLICA_GROUP_ID", "NUM_REPLICA_GROUPS"})
    if (const Origin* at = reading.given(fmt::format("env.{}", name)); at != nullptr)
      reading.diagnostics.error(
          at->at, fmt::format("env.{} is given, and train-run sets it for each group", name),
          with_location(reading, at->at, "remove it", "backend"));
}

void check_roles(Reading& reading, const JobSpec& spec) {
  const Origin* at = reading.given("roles");
  const ScalingConfig& scaling = spec.scaling_config;
  if (at == nullptr || scaling.other_roles.empty()) return;
  if (scaling.num_workers.none())
    return reading.diagnostics.error(
        at->at, "roles need train-run, and with num_workers: 0 the program runs in its place",
        with_location(reading, at->at, "remove them, or ask for a worker",
                      "scaling_config.num_workers"));
  if (spec.backend != Backend::Torch && spec.backend != Backend::None)
    reading.diagnostics.error(
        at->at, fmt::format("roles cannot be used with backend: {}", to_text(spec.backend)),
        with_location(reading, at->at, "write torch or none, or remove the roles", "backend"));
  if (scaling.num_workers.automatic)
    reading.diagnostics.error(at->at, "roles cannot be used with scaling_config.num_workers: auto",
                              with_location(reading, at->at, "write a number, or {min: 2, max: 8}",
                                            "scaling_config.num_workers"));
  if (spec.env.contains("ROLE_NAME"))
    reading.diagnostics.error(
        at->at, "roles are given, and env.ROLE_NAME, too",
        with_location(reading, at->at, "remove the variable", "env.ROLE_NAME"));
  std::int64_t workers = scaling.num_workers.max;
  for (const RoleSpec& role : scaling.other_roles) workers += role.workers;
  if (workers > kWorkersMax)
    reading.diagnostics.error(
        at->at, fmt::format("roles have {} workers, more than {}", workers, kWorkersMax),
        "lower num_workers of a role");
}

void check_limits(Reading& reading, const FailureConfig& failure) {
  const auto ordered = [&](std::string_view lower_key, Duration lower, std::string_view upper_key,
                           Duration upper, bool equal_is_fine) {
    if (lower < upper || (equal_is_fine && lower == upper)) return;
    const std::string base = "run_config.failure_config.";
    const std::string lower_path = base + std::string(lower_key);
    const std::string upper_path = base + std::string(upper_key);
    const bool blame_lower = reading.given(lower_path) != nullptr;
    const Origin* at = reading.given(blame_lower ? lower_path : upper_path);
    if (at == nullptr) return;
    reading.diagnostics.error(
        at->at,
        fmt::format("{} is {}, {} {}, which is {}", lower_path, yaml::format_duration_yaml(lower),
                    equal_is_fine ? "more than" : "not less than", upper_path,
                    yaml::format_duration_yaml(upper)),
        blame_lower ? with_location(reading, at->at,
                                    fmt::format("lower it, or raise {}", upper_key), upper_path)
                    : with_location(reading, at->at,
                                    fmt::format("raise it, or lower {}", lower_key), lower_path));
  };
  ordered("node_suspect_after", failure.node_suspect_after, "node_dead_after",
          failure.node_dead_after, false);
  ordered("backoff.initial", failure.backoff.initial, "backoff.max", failure.backoff.max, true);
}

/// A mix has its rows from other datasets, which say how they are read.
void check_mix(Reading& reading, const std::string& name, const JobSpec& spec, const Origin& top) {
  const std::string base = "datasets." + name;
  const DatasetSpec& dataset = spec.datasets.at(name);
  for (const Field* field : fields_below("datasets.*")) {
    const std::string_view key = key_of(*field);
    if (key == "mix" || key == "stopping_condition" || key == "rows" || key == "split" ||
        key == "on_change")
      continue;
    if (const Origin* origin = reading.given(fmt::format("{}.{}", base, key)))
      reading.diagnostics.error(origin->at, fmt::format("{}.{} cannot be used with mix", base, key),
                                "give it to the datasets that are mixed");
  }
  if (const Origin* stop = reading.given(base + ".stopping_condition"); stop && dataset.rows)
    reading.diagnostics.error(stop->at, base + ".stopping_condition cannot be used with rows",
                              "remove one of the two");
  std::vector<std::string_view> known;
  for (const auto& [other, of_other] : spec.datasets)
    if (of_other.mix.empty()) known.push_back(other);
  for (const auto& [source, weight] : dataset.mix) {
    const std::string key = fmt::format("{}.mix.{}", base, source);
    const auto other = spec.datasets.find(source);
    if (other != spec.datasets.end() && other->second.mix.empty()) continue;
    reading.diagnostics.error(
        nearest_origin(reading, key, top).at,
        other == spec.datasets.end() ? fmt::format("{} is not the name of a dataset", key)
                                     : fmt::format("{} is a mix itself", key),
        known.empty() ? "add the datasets that are mixed" : yaml::suggest(source, known));
  }
}

void check_dataset(Reading& reading, const std::string& name, const DatasetSpec& dataset,
                   const Origin& location) {
  const std::string base = "datasets." + name;
  for (const std::string_view key : {"stopping_condition", "rows"}) {
    if (const Origin* origin = reading.given(fmt::format("{}.{}", base, key)))
      reading.diagnostics.error(origin->at, fmt::format("{}.{} needs a mix", base, key),
                                key == "rows" ? "write limit to read fewer rows"
                                              : "add mix: {name: weight}, or remove it");
  }
  const Origin& whole = nearest_origin(reading, base, location);
  const auto needs = [&](std::string_view key, std::string_view format, std::string_view example) {
    if (reading.given(fmt::format("{}.{}", base, key)) != nullptr) return;
    reading.diagnostics.error(
        whole.at, fmt::format("{} has no {}, which format: {} needs", base, key, format),
        fmt::format("add {}", example));
  };
  const auto excludes = [&](std::string_view key, std::string_view format, std::string_view hint) {
    const Origin* origin = reading.given(fmt::format("{}.{}", base, key));
    if (origin == nullptr) return;
    reading.diagnostics.error(
        origin->at, fmt::format("{}.{} cannot be used with format: {}", base, key, format),
        std::string(hint));
  };
  const std::string format(to_text(dataset.format));
  const bool csv = dataset.format == DatasetFormat::Csv || dataset.format == DatasetFormat::Auto;
  if (dataset.format == DatasetFormat::Items) {
    needs("items", "items", "items: [{x: 1}, {x: 2}]");
    excludes("path", "items", "remove it, or the format");
    excludes("columns", "items", "remove it, and the other columns from the items");
    excludes("filter", "items", "remove it, and the other rows from the items");
    excludes("limit", "items", "remove it, and the other rows from the items");
  } else {
    needs("path", format, "path: a file, folder or glob; or write format: items, and items");
    excludes("items", format, "remove it, or write format: items");
  }
  if (!csv && dataset.format != DatasetFormat::Json)
    excludes("schema", format, "remove it: only CSV and JSON files need types");
  if (!csv) {
    excludes("delimiter", format, "remove it: only CSV files have one");
    excludes("newlines_in_values", format, "remove it: only CSV files need it");
  }
  if (dataset.format != DatasetFormat::Cifar)
    excludes("labels", format, "remove it, or write format: cifar");
  if (dataset.format != DatasetFormat::Images) {
    for (const std::string_view key : {"size", "mode", "include_paths"})
      excludes(key, format, "remove it, or write format: images");
  }
  const std::string_view delimiter = dataset.delimiter ? std::string_view(*dataset.delimiter) : ",";
  if (delimiter == "\"" || delimiter == "\n" || delimiter == "\r") {
    const std::string key = base + ".delimiter";
    reading.diagnostics.error(
        nearest_origin(reading, key, location).at,
        fmt::format("{} is {}, which has a meaning of its own", key, yaml::in_quotes(delimiter)),
        "write another character, such as \";\" or \"\\t\"");
  }
}

/// Replace `map: {from: train, without: [random_crop]}` by the steps that it stands for.
void resolve_maps(Reading& reading, JobSpec& spec, const Origin& top) {
  std::map<std::string, std::vector<MapStep>> resolved;
  for (const auto& [name, dataset] : spec.datasets) {
    if (!dataset.map_from) continue;
    const MapFrom& from = *dataset.map_from;
    const std::string base = fmt::format("datasets.{}.map", name);
    const Origin& at = nearest_origin(reading, base + ".from", top);
    const auto other = spec.datasets.find(from.dataset);
    if (other == spec.datasets.end()) {
      std::vector<std::string_view> known;
      for (const auto& [known_name, ignored] : spec.datasets) known.push_back(known_name);
      reading.diagnostics.error(at.at,
                                fmt::format("{}.from is {}, which is not the name of a dataset",
                                            base, yaml::in_quotes(from.dataset)),
                                yaml::suggest(from.dataset, known));
      continue;
    }
    if (other->second.map_from) {
      reading.diagnostics.error(
          at.at,
          fmt::format("{}.from is {}, which takes its maps from another dataset itself", base,
                      yaml::in_quotes(from.dataset)),
          "name the dataset that lists the maps");
      continue;
    }
    std::vector<MapStep>& steps = resolved[name];
    steps = other->second.map;
    for (std::size_t i = 0; i < from.without.size(); ++i) {
      const std::string& left_out = from.without[i];
      const auto is_it = [&](const MapStep& step) { return step.name == left_out; };
      if (std::erase_if(steps, is_it) > 0) continue;
      std::vector<std::string_view> known;
      for (const MapStep& step : other->second.map) {
        if (std::find(known.begin(), known.end(), step.name) == known.end())
          known.push_back(step.name);
      }
      const std::string key = fmt::format("{}.without[{}]", base, i);
      reading.diagnostics.error(nearest_origin(reading, key, at).at,
                                fmt::format("{} is {}, which is no map of {}", key,
                                            yaml::in_quotes(left_out), from.dataset),
                                known.empty() ? "remove it" : yaml::suggest(left_out, known));
    }
  }
  for (auto& [name, dataset] : spec.datasets) {
    if (dataset.map_from) dataset.map = std::move(resolved[name]);
    dataset.map_from.reset();
  }
}

/// Give a dataset with `preprocessors: {from: train}` the steps of that one.
void resolve_preprocessors(Reading& reading, JobSpec& spec, const Origin& top) {
  for (auto& [name, dataset] : spec.datasets) {
    if (dataset.preprocessors_from.empty()) continue;
    const std::string key = fmt::format("datasets.{}.preprocessors.from", name);
    const Origin& at = nearest_origin(reading, key, top);
    const std::string& from = dataset.preprocessors_from;
    const auto other = spec.datasets.find(from);
    if (other == spec.datasets.end()) {
      std::vector<std::string_view> known;
      for (const auto& [known_name, ignored] : spec.datasets) known.push_back(known_name);
      reading.diagnostics.error(
          at.at,
          fmt::format("{} is {}, which is not the name of a dataset", key, yaml::in_quotes(from)),
          yaml::suggest(from, known));
    } else if (!other->second.preprocessors_from.empty() || other->second.preprocessors.empty()) {
      reading.diagnostics.error(
          at.at,
          fmt::format("{} is {}, which lists no preprocessors itself", key, yaml::in_quotes(from)),
          "name the dataset that lists them");
    } else {
      dataset.preprocessors = other->second.preprocessors;
    }
  }
}

void check_order(Reading& reading, const std::string& name, const DatasetSpec& dataset) {
  const Origin* preserve = reading.given(fmt::format("datasets.{}.preserve_order", name));
  if (preserve == nullptr || !dataset.preserve_order || !dataset.shuffle) return;
  reading.diagnostics.error(
      preserve->at,
      fmt::format("datasets.{}.preserve_order is true, but the dataset is shuffled", name),
      "remove one of them");
}

void check_ingest(Reading& reading, const std::string& name, const DatasetSpec& dataset) {
  const IngestSpec& ingest = dataset.ingest;
  const std::string base = fmt::format("dataset_config.{}.ingest", name);
  const Origin* section = reading.given(base);
  if (section != nullptr && reading.given(base + "_workers") == nullptr)
    reading.diagnostics.error(section->at,
                              fmt::format("{0} is given, and {0}_workers is not", base),
                              "add ingest_workers: 1, or remove it");
  if (const Origin* workers = reading.given(base + "_workers");
      workers != nullptr && !dataset.mix.empty())
    reading.diagnostics.error(
        workers->at,
        fmt::format("{0}_workers: datasets.{1} is a mix, which ingest workers do not read", base,
                    name),
        "remove it: the workers read the mix themselves");
  const auto refuse = [&](const std::string& resource) {
    const std::string key = fmt::format("{}.resources_per_worker.{}", base, resource);
    const Origin* origin = reading.given(key);
    if (origin == nullptr) return;
    reading.diagnostics.error(
        origin->at, fmt::format("{}: ingest workers claim CPU and memory only", key), "remove it");
  };
  if (ingest.resources_per_worker.gpu > 0) refuse("GPU");
  for (const auto& [resource, amount] : ingest.resources_per_worker.custom) refuse(resource);
}

/// All ranks are told of all ingest workers in one message.
void check_ingest_together(Reading& reading, const JobSpec& spec) {
  constexpr int kTogetherMax = 1024;
  int together = 0;
  for (const auto& [name, dataset] : spec.datasets) {
    const bool fitted = together <= kTogetherMax;
    together += dataset.ingest.workers.max;
    const Origin* origin = reading.given(fmt::format("dataset_config.{}.ingest_workers", name));
    if (!fitted || together <= kTogetherMax || origin == nullptr) continue;
    reading.diagnostics.error(
        origin->at,
        fmt::format("with dataset_config.{}.ingest_workers, there may be {} ingest workers in all, "
                    "more than {}",
                    name, together, kTogetherMax),
        "lower the numbers");
  }
}

void check_replicas(Reading& reading, const JobSpec& spec) {
  constexpr std::string_view kPath = "run_config.checkpoint_config.replicas";
  const Origin* replicas = reading.given(kPath);
  if (replicas == nullptr || spec.run_config.checkpoint_config.replicas == 0) return;
  const SlurmUse slurm = spec.cluster.slurm;
  const bool in_slurm =
      slurm == SlurmUse::Required ||
      (slurm == SlurmUse::Auto && reading.source.environment.contains("SLURM_JOB_ID"));
  if (!spec.cluster.names_nodes() && !in_slurm)
    reading.diagnostics.error(replicas->at,
                              fmt::format("{} is {}, but there are no cluster.nodes to store them",
                                          kPath, spec.run_config.checkpoint_config.replicas),
                              "remove it: checkpoints go straight into the run's folder");
  if (is_object_url(spec.run_config.storage_path))
    reading.diagnostics.error(
        replicas->at,
        fmt::format("{} cannot be used with a storage_path in an object store", kPath),
        with_location(reading, replicas->at, "remove it: every node reaches the store",
                      "run_config.storage_path"));
}

void check_cluster(Reading& reading, const JobSpec& spec) {
  if (const auto& program = spec.cluster.ssh.traind) {
    const Origin* given = reading.given("cluster.ssh.traind");
    if (const std::string mistake = remote_program_mistake(*program); !mistake.empty() && given)
      reading.diagnostics.error(
          given->at,
          fmt::format("cluster.ssh.traind is {}, and {}", yaml::in_quotes(*program), mistake),
          "name the program's path on the hosts");
  }
  const Origin* slurm = reading.given("cluster.slurm");
  if (slurm != nullptr && spec.cluster.slurm == SlurmUse::Required && spec.cluster.names_nodes()) {
    const std::string key = !spec.cluster.nodes.empty()        ? "cluster.nodes"
                            : !spec.cluster.hosts_file.empty() ? "cluster.hosts_file"
                                                               : "cluster.dns";
    reading.diagnostics.error(slurm->at,
                              "cluster.slurm is required, but " + key + " names the nodes",
                              with_location(reading, slurm->at, "remove one of them", key));
  }
  if (!spec.cluster.dns.empty()) {
    const Origin* given = reading.given("cluster.dns");
    if (const auto name = parse_dns_name(spec.cluster.dns); !name && given)
      reading.diagnostics.error(
          given->at,
          fmt::format("cluster.dns is {}, which {}", yaml::in_quotes(spec.cluster.dns),
                      name.error().message),
          "write NAME or NAME:PORT");
  }
  const Origin* token = reading.given("cluster.token_file");
  const Origin* tls = reading.given("cluster.tls");
  if (token == nullptr || tls == nullptr) return;
  reading.diagnostics.error(
      tls->at, "cluster.token_file and cluster.tls are both given",
      with_location(reading, tls->at, "remove one of them", "cluster.token_file"));
}

void check_checkpoints(Reading& reading, const CheckpointConfig& checkpoint) {
  const Origin* order = reading.given("run_config.checkpoint_config.checkpoint_score_order");
  if (order == nullptr || checkpoint.score_attribute) return;
  reading.diagnostics.warning(order->at,
                              "run_config.checkpoint_config.checkpoint_score_order has no effect "
                              "without checkpoint_score_attribute",
                              "name the metric, or remove it");
}

void check_validation(Reading& reading, JobSpec& spec) {
  constexpr std::string_view kSection = "run_config.checkpoint_config.validation";
  ValidationConfig& validation = spec.run_config.checkpoint_config.validation;
  if (reading.given(kSection) != nullptr &&
      reading.given(fmt::format("{}.every", kSection)) == nullptr)
    validation.every = 1;
  const Origin* gpu = reading.given(fmt::format("{}.use_gpu", kSection));
  if (gpu == nullptr || !validation.use_gpu || spec.scaling_config.use_gpu) return;
  reading.diagnostics.error(
      gpu->at, fmt::format("{}.use_gpu is true, and scaling_config.use_gpu is false", kSection),
      with_location(reading, gpu->at, "remove it, or set use_gpu: true for the workers too",
                    "scaling_config.use_gpu"));
}

void check_setup(Reading& reading, const yaml::Node& root, const JobSpec& spec) {
  const Origin* section = reading.given("per_node_setup");
  const yaml::Node* node = root.find("per_node_setup");
  if (section == nullptr || node == nullptr || !node->is(yaml::Node::Kind::Map) ||
      !spec.per_node_setup.command.empty() || reading.given("per_node_setup.command") != nullptr)
    return;
  reading.diagnostics.error(section->at, "per_node_setup has no command",
                            "add command: [./prepare.sh], or remove it");
}

void check_metadata(Reading& reading, const JobSpec& spec, const Origin& top) {
  if (!spec.metadata.contains("data")) return;
  reading.diagnostics.error(nearest_origin(reading, "metadata.data", top).at,
                            "metadata.data is where checkpoints hold the datasets' positions",
                            "write it under another key");
}

}  // namespace

void check_spec(Reading& reading, const yaml::Node& root, JobSpec& spec) {
  const Origin top{root.at, {}};
  if (!root.is(yaml::Node::Kind::Map) && !root.is(yaml::Node::Kind::Null))
    return;  // reported by the reader
  if (reading.given("command") == nullptr) {
    reading.diagnostics.error(root.at, "the spec has no command",
                              "add command: [./train, --verbose]");
  }
  check_gpus(reading, spec);
  check_no_workers(reading, spec);
  check_workers_per_node(reading, spec.scaling_config);
  check_selectors(reading, spec.scaling_config);
  check_gpu_choice(reading, spec.scaling_config);
  check_backend(reading, spec);
  check_groups(reading, spec);
  check_roles(reading, spec);
  check_limits(reading, spec.run_config.failure_config);
  check_checkpoints(reading, spec.run_config.checkpoint_config);
  check_replicas(reading, spec);
  check_cluster(reading, spec);
  check_validation(reading, spec);
  check_setup(reading, root, spec);
  check_metadata(reading, spec, top);
  resolve_maps(reading, spec, top);
  resolve_preprocessors(reading, spec, top);
  check_ingest_together(reading, spec);
  for (const auto& [name, dataset] : spec.datasets) {
    check_ingest(reading, name, dataset);
    if (reading.given(fmt::format("datasets.{}.mix", name)) == nullptr) {
      check_dataset(reading, name, dataset, top);
      check_order(reading, name, dataset);
    } else {
      check_mix(reading, name, spec, top);
    }
  }
}

}  // namespace train::spec
