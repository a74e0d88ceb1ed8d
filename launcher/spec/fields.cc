#include "launcher/spec/fields.h"

#include <algorithm>
#include <array>
#include <limits>

namespace train::spec {
namespace {

using Ref = FieldRef;

constexpr std::array<std::string_view, 2> kBackends{"torch", "none"};
constexpr std::array<std::string_view, 3> kCollectives{"auto", "gloo", "nccl"};
constexpr std::array<std::string_view, 4> kStrategies{"PACK", "SPREAD", "STRICT_PACK",
                                                      "STRICT_SPREAD"};
constexpr std::array<std::string_view, 2> kOrders{"max", "min"};
constexpr std::array<std::string_view, 2> kStorageNeeds{"auto", "required"};
constexpr std::array<std::string_view, 3> kCallbacks{"csv", "json", "tensorboard"};
constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warning", "error"};
constexpr std::array<std::string_view, 2> kFormats{"parquet", "items"};

constexpr std::array<std::string_view, 9> kLimitNames{"as",      "core",   "cpu",   "data", "fsize",
                                                      "memlock", "nofile", "nproc", "stack"};

constexpr std::int64_t kPidsMax = 4'194'304;  // of Linux
constexpr std::int64_t kUserBytesMax = 255;   // of Linux: LOGIN_NAME_MAX
constexpr std::int64_t kDayMs = 86'400'000;

// clang-format off
constexpr std::array kFields{
    Field{"version", Kind::Version, nowhere, "The version of this format: 1."},
    Field{"extends", Kind::Extends, nowhere, "Another spec, relative to this one, whose keys hold where this one is silent. Mappings are merged key by key, everything else is replaced. One level: that file may not extend a further one. Its relative paths are relative to itself.", {}, 0, 0, {}, R"("base.yaml")"},
    Field{"name", Kind::Name, [](const Target& t) -> Ref { return &t.spec->run_config.name; },
          "The run's name: its folder under storage_path. The same name again resumes an unfinished run.", {}, 0, 0, "the file's name and the time, as job-20261121-101500", R"("vit-cifar10")"},
    Field{"command", Kind::Command, [](const Target& t) -> Ref { return &t.spec->command; },
          "The worker's program and arguments, started in working_dir. A list is run as it is; a string is given to /bin/sh -c (which then replaces variables itself).", {}, 0, 0, "required", R"(["./vit", "--verbose"])"},
    Field{"working_dir", Kind::Path, [](const Target& t) -> Ref { return &t.spec->working_dir; },
          "The folder in which the workers start.", {}, 0, 0, "the spec's folder", R"(".")"},
    Field{"env", Kind::Environment, [](const Target& t) -> Ref { return &t.spec->env; },
          "Environment of the workers, on top of the submitter's. Secrets are references, resolved at launch and never written down: env:NAME (a variable of the submitter) or file:PATH (the file's text without its last line end; file:// stays a URL).", {}, 0, 0, {}, R"({"OMP_NUM_THREADS": "4", "HF_TOKEN": "env:HF_TOKEN"})"},
    Field{"train_loop_config", Kind::Free, [](const Target& t) -> Ref { return &t.spec->train_loop_config; },
          "Anything; the workers read it typed, as train::Config. Numbers, true, false and null as in YAML 1.2.", {}, 0, 0, {}, R"({"lr": 0.001, "epochs": 10, "batch_size": 512})"},
    Field{"backend", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->backend); },
          "How the workers talk to each other. torch: a c10d process group, with a master port that is reserved for it. none: torchrun's variables are set all the same, but no port is reserved.", kBackends},
    Field{"backend_config", Kind::Section, nowhere, "Of the torch backend."},
    Field{"backend_config.collectives", Kind::Choice, [](const Target& t) -> Ref { return &t.spec->collectives; },
          "The library for collectives; auto: nccl on GPUs, gloo on CPUs.", kCollectives},
    Field{"backend_config.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->collective_timeout; },
          "How long a collective may wait for a rank.", {}, 1000, 30 * kDayMs},
    Field{"scaling_config", Kind::Section, nowhere, "How many workers, and what each needs."},
    Field{"scaling_config.num_workers", Kind::Count, [](const Target& t) -> Ref { return &t.spec->scaling_config.num_workers; },
          "Workers, all nodes together: a number, or {min: 4, max: 8}. With a range the group begins with as many as fit, goes on with fewer when a node is lost, and grows at a checkpoint when there is room.", {}, 1, kWorkersMax, {}, "8"},
    Field{"scaling_config.use_gpu", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->scaling_config.use_gpu; },
          "Give each worker GPUs."},
    Field{"scaling_config.resources_per_worker", Kind::Resources, [](const Target& t) -> Ref { return &t.spec->scaling_config.resources_per_worker; },
          "What one worker claims of its node: CPU (cores; 0 claims none), GPU (whole ones), memory (a size), and resources of your own. Case counts.", {}, 0, 0, "CPU: 1; GPU: 1 with use_gpu, else 0", R"({"CPU": 4, "GPU": 1, "memory": "16GiB"})"},
    Field{"scaling_config.placement_strategy", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->scaling_config.placement_strategy); },
          "PACK: as few nodes as possible. SPREAD: as many. STRICT_PACK: one node, or not at all. STRICT_SPREAD: a node each, or not at all.", kStrategies},
    Field{"scaling_config.standby_workers", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->scaling_config.standby_workers; },
          "How many processes to keep started, beside the workers, for a restart of the group: they have loaded their libraries and wait in the SDK's first call. As many as num_workers make a whole restart warm. They claim no resources, but need memory. Only for programs that use the SDK.", {}, 0, kWorkersMax},
    Field{"scaling_config.cpu_limit", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->scaling_config.cpu_limit; },
          "true: a worker gets no more CPU time than it claims. false: its claim is its share when CPUs are short, and what others leave is its too. Both where traind may write cgroups."},
    Field{"scaling_config.pids_per_worker", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->scaling_config.pids_per_worker; },
          "How many processes and threads a worker may have, where traind may write cgroups. 0: all workers of a node together half of what it can have.", {}, 0, kPidsMax},
    Field{"run_config", Kind::Section, nowhere, "The run: its place, its limits, what it keeps."},
    Field{"run_config.name", Kind::Name, [](const Target& t) -> Ref { return &t.spec->run_config.name; },
          "The same as the top-level name, as Ray Train has it. Both given and different is an error.", {}, 0, 0, "the top-level name"},
    Field{"run_config.storage_path", Kind::Storage, [](const Target& t) -> Ref { return &t.spec->run_config.storage_path; },
          "A folder, local or NFS, that holds a folder for each run; or s3://bucket/folder, gs://bucket/folder, hdfs://namenode/folder (docs/checkpoints.md).", {}, 0, 0, "~/train_results", R"("/nfs/runs")"},
    Field{"run_config.shared_storage", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.shared_storage); },
          "Whether every node must see storage_path. auto: train-run relays the checkpoints of those that do not. required: such a node is an error.", kStorageNeeds},
    Field{"run_config.failure_config", Kind::Section, nowhere, "What happens when something dies."},
    Field{"run_config.failure_config.max_failures", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_failures; },
          "How many deaths of workers a run survives, by a restart from the newest checkpoint; -1: any number. A newer checkpoint refills it.", {}, -1},
    Field{"run_config.failure_config.max_start_failures", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_start_failures; },
          "The same for deaths of a worker's SDK program before the group's first report or barrier; -1: any number.", {}, -1,
          std::numeric_limits<int>::max(), "max_failures"},
    Field{"run_config.failure_config.max_preemptions", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_preemptions; },
          "How many drained nodes, and with {min, max} lost nodes, a run survives; -1: any number. A newer checkpoint refills it.", {}, -1},
    Field{"run_config.failure_config.hang_timeout", Kind::NotYet, nowhere, "remove it; a hang is noticed by backend_config.timeout only"},
    Field{"run_config.failure_config.stop_grace", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.stop_grace; },
          "Time between TERM and KILL when somebody asks a run to stop.", {}, 0, kDayMs},
    Field{"run_config.failure_config.orphan_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.orphan_timeout; },
          "How long workers go on without a launcher, or without their node's traind.", {}, 0, 30 * kDayMs},
    Field{"run_config.failure_config.node_suspect_after", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.node_suspect_after; },
          "Silence of a node before it is dialled afresh. Heartbeats come every second, and at least three times as often as this.", {}, 1000, kDayMs},
    Field{"run_config.failure_config.node_dead_after", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.node_dead_after; },
          "Silence of a node before it counts as lost.", {}, 2000, kDayMs},
    Field{"run_config.failure_config.backoff", Kind::Section, nowhere, "The wait before a restart, from the second one without progress on; it doubles each time."},
    Field{"run_config.failure_config.backoff.initial", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.backoff.initial; },
          "The first wait.", {}, 0, kDayMs},
    Field{"run_config.failure_config.backoff.max", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.backoff.max; },
          "The longest wait.", {}, 0, kDayMs},
    Field{"run_config.checkpoint_config", Kind::Section, nowhere, "Which checkpoints are kept."},
    Field{"run_config.checkpoint_config.num_to_keep", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.num_to_keep; },
          "How many checkpoints are kept: the best ones, and always the newest.", {}, 1, std::numeric_limits<int>::max(), "all"},
    Field{"run_config.checkpoint_config.checkpoint_score_attribute", Kind::Text, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.score_attribute; },
          "The metric that says which checkpoint is best.", {}, 0, std::numeric_limits<int>::max(), "none: the newest is the best", R"("val_acc")"},
    Field{"run_config.checkpoint_config.checkpoint_score_order", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.checkpoint_config.score_order); },
          "Whether the best has the greatest or the smallest score.", kOrders},
    Field{"run_config.checkpoint_config.replicas", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.replicas; },
          "While the run goes on, checkpoints stay on the nodes' own disks: each worker's shard on its node and on the next replicas - 1 ones. A restarted group gathers what it lacks from there; when the run ends, what is kept comes to the run's folder. 0: straight into the run's folder. Needs cluster.nodes.", {}, 0, 64},
    Field{"run_config.checkpoint_config.upload_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.upload_timeout; },
          "How long storing one worker's shard of a checkpoint may take, and then committing the whole, waiting for their turn included. Then that checkpoint is given up, with a warning, and training goes on.", {}, 1000, 30 * kDayMs},
    Field{"run_config.checkpoint_config.validation", Kind::Section, nowhere, "Validate committed checkpoints, one after the other, by a process of its own beside the workers. Its metrics lie over the reported ones, and decide with them which checkpoint is the best."},
    Field{"run_config.checkpoint_config.validation.every", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.every; },
          "Validate the checkpoints whose number can be divided by this; 0: none.", {}, 0, std::numeric_limits<int>::max(), "1 where validation is given, else 0"},
    Field{"run_config.checkpoint_config.validation.command", Kind::Command, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.command; },
          "The program, started in working_dir: it reads $TRAINRUN_CHECKPOINT_DIR and writes a JSON object of metrics to $TRAINRUN_RESULT_FILE. The SDK does that for a program that has registered train::validation.", {}, 0, 0, "the job's own", R"(["python3", "validate.py"])"},
    Field{"run_config.checkpoint_config.validation.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.timeout; },
          "How long one may take before it is killed.", {}, 1000, 30 * kDayMs},
    Field{"run_config.checkpoint_config.validation.use_gpu", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.use_gpu; },
          "true: it sees the GPUs of the workers on its node, and shares them. false: it sees none."},
    Field{"run_config.stop", Kind::Stop, [](const Target& t) -> Ref { return &t.spec->run_config.stop; },
          "End the run, as a success, when rank 0 reports one of these metrics at this value or more.", {}, 0, 0, {}, R"({"epoch": 10, "val_acc": 0.9})"},
    Field{"run_config.callbacks", Kind::ChoiceList, [](const Target& t) -> Ref { return &t.spec->run_config.callbacks; },
          "What is written beside the report log: csv (progress.csv), json (metrics.jsonl, which is always there), tensorboard (tb/).", kCallbacks},
    Field{"run_config.log_level", Kind::Choice, [](const Target& t) -> Ref { return &t.spec->run_config.log_level; },
          "What train-run writes into train-run.log in the run's folder: what is of this level, or graver. debug has each report and each order to a node.", kLogLevels},
    Field{"run_config.umask", Kind::Umask, [](const Target& t) -> Ref { return &t.spec->run_config.umask; },
          "What others may not do with the files that the run and its workers make, as umask(1) has it: 077 leaves them to their owner, 027 lets the group read. The spec stays the owner's.", {}, 0, 0, {}, R"("027")"},
    Field{"run_config.rlimits", Kind::Limits, [](const Target& t) -> Ref { return &t.spec->run_config.rlimits; },
          "Limits of each worker, as prlimit(1) names them (as, core, cpu, data, fsize, memlock, nofile, nproc, stack) → a number, or unlimited. All others are those of traind.", {}, 0, 0, {}, R"({"nofile": 65536, "core": "unlimited"})"},
    Field{"run_config.user", Kind::Text, [](const Target& t) -> Ref { return &t.spec->run_config.user; },
          "The user of the nodes that the workers run as; the traind of each node must allow it (traind --run-as).", {}, 0, kUserBytesMax, "the first user that traind's --run-as names, or the one that the launcher's certificate names; without --run-as, the user that traind runs as", R"("alice")"},
    Field{"run_config.keep_capabilities", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->run_config.keep_capabilities; },
          "true: workers of root keep root's capabilities, as those of a container that must read files of other users. false: they have none. Neither can gain any."},
    Field{"datasets", Kind::Entries, nowhere, "Name → dataset, for get_dataset_shard(name)."},
    Field{"datasets.*.format", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.dataset->format); },
          "parquet: files at path. items: rows in the spec itself.", kFormats},
    Field{"datasets.*.path", Kind::Path, [](const Target& t) -> Ref { return &t.dataset->path; },
          "A file, a folder or a glob. Required with format: parquet.", {}, 0, 0, {}, R"("data/train")"},
    Field{"datasets.*.columns", Kind::TextList, [](const Target& t) -> Ref { return &t.dataset->columns; },
          "The columns to read; none named: all. Of format: parquet.", {}, 0, 0, {}, R"(["image", "label"])"},
    Field{"datasets.*.items", Kind::Items, [](const Target& t) -> Ref { return &t.dataset->items; },
          "The rows: mappings with the same keys. Required with format: items.", {}, 0, 0, {}, R"([{"x": 1}, {"x": 2}])"},
    Field{"datasets.*.split", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->split; },
          "true: each worker gets an equal share. false: each gets the whole.", {}, 0, 0, "true for train, false for others"},
    Field{"datasets.*.shuffle", Kind::Shuffle, [](const Target& t) -> Ref { return t.dataset; },
          "A new order each epoch, from the seed and the epoch: true (seed 0), false, or {seed: 1}.", {}, 0, 0, {}, R"({"seed": 1})"},
    Field{"datasets.*.map", Kind::NotYet, nowhere, "remove it; map the batches in the training loop"},
    Field{"datasets.*.on_error", Kind::NotYet, nowhere, "remove it; a bad row or file ends the worker with an error that names it"},
    Field{"dataset_config", Kind::Entries, nowhere, "Dataset's name → how it is handed out, as Ray Train's DataConfig has it."},
    Field{"dataset_config.*.split", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->split; },
          "The same as the dataset's own split. Both given and different is an error.", {}, 0, 0, "the dataset's own"},
    Field{"dataset_config.*.ingest_workers", Kind::NotYet, nowhere, "remove it; each worker reads with threads of its own"},
    Field{"metadata", Kind::Free, [](const Target& t) -> Ref { return &t.spec->metadata; },
          "Anything; in the context of each worker and in every checkpoint.", {}, 0, 0, {}, R"({"team": "vision"})"},
    Field{"resume_from_checkpoint", Kind::Storage, [](const Target& t) -> Ref { return &t.spec->resume_from_checkpoint; },
          "A committed checkpoint to start from: its folder, or its URL (s3://, gs://, hdfs://).", {}, 0, 0, {}, R"("/nfs/runs/vit/checkpoints/checkpoint_000007")"},
    Field{"cluster", Kind::Section, nowhere, "The nodes. Without any, train-run starts a private traind on this machine."},
    Field{"cluster.nodes", Kind::Nodes, [](const Target& t) -> Ref { return &t.spec->cluster.nodes; },
          "Addresses of traind, host:port. Where it is not given, the variable TRAINRUN_CLUSTER (comma-separated) holds.", {}, 0, 0, {}, R"(["gpu-1:7070", "gpu-2:7070"])"},
    Field{"cluster.token_file", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.token_file; },
          "The file of the secret that train-run and traind share.", {}, 0, 0, {}, R"("/etc/traind/token")"},
    Field{"cluster.tls", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.tls; },
          "In place of a token: the folder of this user's certificate, with ca.crt, tls.crt and tls.key, as traind certs makes it.", {}, 0, 0, {}, R"("~/.config/trainrun/tls")"},
};

constexpr std::array kPlannedChoices{
    PlannedChoice{"backend", "tensorflow", "use none: the program forms its own cluster from RANK, WORLD_SIZE and MASTER_ADDR"},
    PlannedChoice{"backend", "horovod", "use none, or torch with prepare_model, which averages gradients as Horovod does"},
    PlannedChoice{"backend", "custom", "use none: the program forms its own group from RANK, WORLD_SIZE and MASTER_ADDR"},
    PlannedChoice{"run_config.callbacks", "mlflow", "use csv or tensorboard"},
    PlannedChoice{"datasets.*.format", "csv", "convert it to Parquet"},
    PlannedChoice{"datasets.*.format", "json", "convert it to Parquet"},
    PlannedChoice{"datasets.*.format", "arrow", "convert it to Parquet"},
};
// clang-format on

constexpr std::array<std::string_view, 20> kReservedEnvironment{"RANK",
                                                                "WORLD_SIZE",
                                                                "LOCAL_RANK",
                                                                "LOCAL_WORLD_SIZE",
                                                                "GROUP_RANK",
                                                                "GROUP_WORLD_SIZE",
                                                                "ROLE_NAME",
                                                                "ROLE_RANK",
                                                                "ROLE_WORLD_SIZE",
                                                                "MASTER_ADDR",
                                                                "MASTER_PORT",
                                                                "TORCHELASTIC_RESTART_COUNT",
                                                                "TORCHELASTIC_MAX_RESTARTS",
                                                                "TORCHELASTIC_RUN_ID",
                                                                "TORCHELASTIC_USE_AGENT_STORE",
                                                                "TORCHELASTIC_ERROR_FILE",
                                                                "TRAINRUN_SOCKET",
                                                                "TRAINRUN_RUN_ID",
                                                                "TRAINRUN_ATTEMPT",
                                                                "TRAINRUN_NODE_RANK"};

bool alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::span<const Field> fields() { return kFields; }

std::vector<const Field*> fields_below(std::string_view section) {
  std::vector<const Field*> rows;
  for (const Field& field : kFields) {
    std::string_view path = field.path;
    if (!section.empty()) {
      if (!path.starts_with(section) || path.size() <= section.size() ||
          path[section.size()] != '.')
        continue;
      path.remove_prefix(section.size() + 1);
    }
    if (path.find('.') == std::string_view::npos) rows.push_back(&field);
  }
  return rows;
}

std::string_view key_of(const Field& field) {
  const std::size_t dot = field.path.rfind('.');
  return dot == std::string_view::npos ? field.path : field.path.substr(dot + 1);
}

std::span<const PlannedChoice> planned_choices() { return kPlannedChoices; }
std::span<const std::string_view> limit_names() { return kLimitNames; }
std::span<const std::string_view> reserved_environment() { return kReservedEnvironment; }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && alphanumeric(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace train::spec
