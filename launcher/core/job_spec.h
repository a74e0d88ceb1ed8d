// A job: the content of the YAML as plain structs, with the defaults beside the fields.
// launcher/spec fills it in; the controller and the placement read it. The names are those of the
// YAML, which follows Ray Train.
#pragma once

#include <array>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/model/cpu_binding.h"
#include "lib/model/resources.h"

namespace train {

inline constexpr int kUnlimited = -1;
inline constexpr int kWorkersMax = 65'536;
/// How many label selectors a spec may have, if each worker has its own.
inline constexpr int kSelectorsMax = 1024;

enum class PlacementStrategy { Pack, Spread, StrictPack, StrictSpread };
enum class ScoreOrder { Max, Min };
/// Auto: if a node cannot see the storage, the launcher relays its checkpoints.
enum class SharedStorageNeed { Auto, Required };
/// What follows if a rank hangs. Auto: fail if the limit was given; observe if it was learned,
/// until learned limits were right once.
enum class HangAction { Auto, Observe, Fail };
/// None: torchrun's variables are set anyway, but no port is reserved.
/// Torchft: replica groups, each a run of its own (launcher/core/groups).
enum class Backend { Torch, None, Tensorflow, Jax, Mpi, Custom, Horovod, Torchft };
// As specs name them, in the order of Backend.
inline constexpr std::array<std::string_view, 8> kBackends{
    "torch", "none", "tensorflow", "jax", "mpi", "custom", "horovod", "torchft"};
constexpr std::string_view to_text(Backend backend) {
  return kBackends[static_cast<std::size_t>(backend)];
}
/// How processes of an MPI program find each other.
enum class Pmi { Pmi1, Pmix };
inline constexpr std::array<std::string_view, 2> kPmis{"pmi1", "pmix"};

inline constexpr int kReplicaGroupsMax = 1000;
/// backend_config of mpi, custom and torchft.
struct BackendConfig {
  Pmi pmi = Pmi::Pmi1;
  std::vector<std::string> publish, on_start, on_training_start, on_shutdown;  // empty: none
  Duration hook_timeout = std::chrono::minutes(5);
  int ports = 0;                             // custom: for each worker
  int replica_groups = 0, min_replicas = 1;  // torchft; its spec has 1 or more groups
  std::vector<std::string> lighthouse = {};  // torchft; empty: the one of the user's torchft
  bool operator==(const BackendConfig&) const = default;
};
enum class DatasetFormat {
  Auto,
  Parquet,
  Csv,
  Json,
  Arrow,
  Orc,
  Numpy,
  Cifar,
  Images,
  WebDataset,
  Items
};
// As specs and workers name them, in the order of DatasetFormat.
inline constexpr std::array<std::string_view, 11> kDatasetFormats{
    "auto",  "parquet", "csv",    "json",       "arrow", "orc",
    "numpy", "cifar",   "images", "webdataset", "items"};
constexpr std::string_view to_text(DatasetFormat format) {
  return kDatasetFormats[static_cast<std::size_t>(format)];
}

/// What a shuffle mixes: lib/data/plan/row_order.h.
enum class ShuffleMode { Window, Files, Global };
// As specs and workers name them, in the order of ShuffleMode.
inline constexpr std::array<std::string_view, 3> kShuffleModes{"window", "files", "global"};
/// What happens if a dataset has changed since the checkpoint within whose epoch a run goes on.
enum class MixStop { Shortest, LongestDrop };
inline constexpr std::array<std::string_view, 2> kMixStops{"stop_on_shortest",
                                                           "stop_on_longest_drop"};
enum class OnChange { Fail, RestartEpoch };
inline constexpr std::array<std::string_view, 2> kOnChanges{"fail", "restart_epoch"};

/// What follows if a process of no run uses a GPU that a worker gets.
enum class GpuInUse { Warn, Refuse };
/// What follows if nodes would run different programs, or one lacks a library.
enum class DigestCheck { Warn, Refuse, Off };

/// Label → condition: "H100", "!r2", "in(a,b)", "!in(a,b)" (launcher/core/label_selector.h).
using LabelSelector = std::map<std::string, std::string>;

struct WorkerCount {  // `8`, `{min: 4, max: 8}`, `auto`, or 0
  int min = 1;
  int max = 1;
  /// One for each GPU, or core, of the nodes. train-run puts the number in its place before the run
  /// begins; until then it is 1.
  bool automatic = false;
  bool elastic() const { return min != max; }
  bool none() const { return max == 0; }  // of num_workers: the program replaces train-run
  bool operator==(const WorkerCount&) const = default;
};

/// The umask of the files and folders that a run makes, and of its workers.
struct Umask {
  int bits = 077;
  bool operator==(const Umask&) const = default;
};
/// "nofile", … → value, for both the soft and the hard limit; kUnlimited.
using ResourceLimits = std::map<std::string, std::int64_t>;

/// A role beside the one that trains: workers with a program of their own, started, restarted and
/// ended with the others.
struct RoleSpec {
  std::string name;
  std::vector<std::string> command;             // argv, as JobSpec::command
  std::map<std::string, std::string> env = {};  // on top of JobSpec::env
  int workers = 1;
  Resources resources_per_worker{.cpu = 1};  // GPUs: whole ones
  LabelSelector label_selector = {};         // of the nodes; empty: any node
  bool operator==(const RoleSpec&) const = default;
};
inline constexpr int kRolesMax = 16;  // of a job, with the one that trains

struct ScalingConfig {
  WorkerCount num_workers;
  bool use_gpu = false;
  Resources resources_per_worker{.cpu = 1};  // gpu defaults to 1 with use_gpu
  PlacementStrategy placement_strategy = PlacementStrategy::Pack;
  int workers_per_node = 0;  // of each node that has any, with PACK; 0: as many as fit
  int standby_workers = 0;   // processes started in advance for the next attempt
  bool cpu_limit = false;    // limit CPU time to the claim, even if more is idle
  /// Processes and threads. 0: all workers on a node share half of the node's.
  int pids_per_worker = 0;
  /// Of the nodes: one for all workers, or one for each; empty: any node.
  std::vector<LabelSelector> label_selector = {};
  CpuBinding bind = CpuBinding::None;
  /// The GPUs of each node that may be used: indexes, or UUIDs and beginnings of UUIDs; empty: all.
  std::vector<std::string> gpus = {};
  GpuInUse gpu_in_use = GpuInUse::Warn;
  /// The name of the role that trains, which all the above describes, and the roles beside it.
  std::string role = "default";
  std::vector<RoleSpec> other_roles = {};
  bool operator==(const ScalingConfig&) const = default;
};

struct Backoff {
  Duration initial = seconds(1);
  Duration max = seconds(60);
  bool operator==(const Backoff&) const = default;
};

inline constexpr int kFailoverNodesMax = 8;

struct FailureConfig {
  int max_failures = 0;  // deaths of workers; kUnlimited: no limit
  /// Failures before the first report or barrier; as many as max_failures by default.
  int max_start_failures = 0;
  int max_preemptions = kUnlimited;        // drained nodes, and nodes lost under {min, max}
  Duration stop_grace = seconds(30);       // TERM to KILL, for requested stops
  Duration orphan_timeout = seconds(600);  // how long workers continue without launcher or traind
  Duration hang_timeout{0};  // how long a rank may show no sign of life; 0: no such limit
  /// The same for one phase: a name of lib/model/worker_progress.h, or of the program's own phase.
  std::map<std::string, Duration> phase_timeouts = {};
  HangAction hang_action = HangAction::Auto;
  /// How long nodes may prepare, and then start their workers; 0: launcher/core/start_watch
  /// decides.
  Duration start_timeout{0};
  Duration node_suspect_after = seconds(3);
  Duration node_dead_after = seconds(10);
  int failover_nodes = 2;  // that may take over the controller of a detached run
  Backoff backoff;
  bool operator==(const FailureConfig&) const = default;
};

/// Validation of committed checkpoints by a separate process beside the workers.
struct ValidationConfig {
  int every = 0;                     // every n-th checkpoint; 0: none
  std::vector<std::string> command;  // empty: the job's own
  Duration timeout = std::chrono::minutes(30);
  bool use_gpu = false;  // the GPUs of the workers on its node
  bool operator==(const ValidationConfig&) const = default;
};

struct CheckpointConfig {
  std::optional<int> num_to_keep;              // unset: all
  std::optional<std::string> score_attribute;  // unset: the newest is the best
  ScoreOrder score_order = ScoreOrder::Max;
  /// How many nodes keep each worker's shard on their disks. 0: the shards go to storage.
  int replicas = 0;
  /// The upload of a part of a checkpoint is given up after this time.
  Duration upload_timeout = std::chrono::minutes(10);
  ValidationConfig validation = {};
  bool operator==(const CheckpointConfig&) const = default;
};

/// Stop when rank 0 reports `metric` at `at_least` or more (epoch, val_acc, …).
struct StopCondition {
  std::string metric;
  double at_least = 0;
  bool operator==(const StopCondition&) const = default;
};

/// Whom to tell of a run's events: a command or a URL, exactly one of them.
struct NotifyRule {
  std::vector<std::string> on = {"hung", "failed", "finished"};  // names of events, spec/fields.cc
  std::vector<std::string> command;                              // argv
  std::string webhook;  // http://, https://, or a reference to a secret (spec/secrets.h)
  bool operator==(const NotifyRule&) const = default;
};

struct RunConfig {
  std::string name;          // never empty after parsing
  std::string storage_path;  // absolute after parsing
  SharedStorageNeed shared_storage = SharedStorageNeed::Auto;
  FailureConfig failure_config;
  CheckpointConfig checkpoint_config;
  std::vector<StopCondition> stop;
  std::vector<std::string> callbacks = {"csv", "json", "tensorboard"};
  std::vector<std::vector<std::string>> callback_commands;  // argv of each; docs/driver.md
  std::vector<NotifyRule> notify;
  std::string log_level = "info";
  Umask umask;
  ResourceLimits rlimits;
  std::optional<std::string> user;  // whom workers run as; unset: traind chooses
  bool keep_capabilities = false;
  DigestCheck check_digests = DigestCheck::Warn;
  int priority = 0;  // in the queue of nodes that several runs share
  bool operator==(const RunConfig&) const = default;
};

enum class ImageColors { Rgb, L };  // in the order of kImageModes

/// Height and width of a picture.
struct ImageSides {
  int height = 0, width = 0;
  bool operator==(const ImageSides&) const = default;
};

/// One step of a dataset's `map`: a built-in map, with arguments that were checked, or one that the
/// program registers.
struct MapStep {
  std::string name;
  boost::json::object arguments;
  bool operator==(const MapStep&) const = default;
};

/// `map: {from: train, without: [random_crop]}`. After parsing, DatasetSpec::map has the steps.
struct MapFrom {
  std::string dataset;
  std::vector<std::string> without;
  bool operator==(const MapFrom&) const = default;
};

/// A word of IngestSpec::nodes.
inline constexpr std::string_view kAnyNode = "any";

/// Processes that read a dataset for the ranks.
struct IngestSpec {
  WorkerCount workers{.min = 0, .max = 0};  // max 0: none
  Resources resources_per_worker{.cpu = 1};
  Duration timeout = seconds(30);  // one that is silent for so long is replaced
  // Where they run: names of nodes, their addresses in the job, or "any"; empty: where ranks are.
  std::vector<std::string> nodes = {};
  bool operator==(const IngestSpec&) const = default;
};

struct DatasetSpec {
  DatasetFormat format = DatasetFormat::Auto;
  std::vector<std::string> paths = {};             // files, folders, globs; absolute after parsing
  std::vector<std::string> columns = {};           // empty: all
  std::map<std::string, std::string> schema = {};  // csv, json: column → one of kColumnTypes
  std::optional<std::string> delimiter = {};       // csv; unset: by the file's name
  bool newlines_in_values = false;                 // csv
  int labels = 1;                                  // cifar
  std::optional<ImageSides> size = {};             // images
  ImageColors mode = ImageColors::Rgb;             // images with a size
  bool include_paths = false;                      // images
  std::vector<MapStep> map = {};
  std::optional<MapFrom> map_from = {};     // while it is read
  std::vector<MapStep> preprocessors = {};  // lib/model/preprocessors.h
  std::string preprocessors_from = {};      // the dataset that they are fitted on; empty: this one
  std::optional<int> skip_rows_max = {};    // on_error: {rows: skip, rows_max: N}; unset: fail
  std::string filter = {};                  // lib/model/row_filter.h; empty: all rows
  std::optional<std::int64_t> limit = {};   // rows
  boost::json::array items = {};            // format: items
  std::map<std::string, double> mix =
      {};  // other datasets → weights; then only the next five count
  MixStop stopping_condition = MixStop::Shortest;
  std::optional<std::int64_t> rows = {};  // of an epoch of a mix
  bool split = false;                     // only "train" by default
  bool shuffle = false;
  std::uint64_t shuffle_seed = 0;
  ShuffleMode shuffle_mode = ShuffleMode::Window;
  std::int64_t shuffle_window = 32 << 20;  // bytes of decoded rows
  bool balance = false;                    // slow workers get fewer rows
  std::optional<int> lanes = {};           // unset: by the number of workers
  bool preserve_order = false;
  OnChange on_change = OnChange::Fail;
  IngestSpec ingest = {};
  bool operator==(const DatasetSpec&) const = default;
};

/// Whether train-run starts a traind on each node of the Slurm job that it runs in. Auto: if no
/// nodes are named.
enum class SlurmUse { Auto, Never, Required };

/// How train-run reaches the nodes that are named "ssh:HOST".
struct SshConfig {
  std::vector<std::string> hosts;     // the parser moves them to cluster.nodes, as "ssh:HOST"
  std::optional<std::string> traind;  // the program there; unset: as PATH finds it
  std::string config_file;            // for ssh -F; empty: the user's own
  bool operator==(const SshConfig&) const = default;
};

struct ClusterConfig {
  std::vector<std::string> nodes;  // "host:port" or "ssh:host"; empty: Slurm's, or a private traind
  // Where nodes are found while the run goes on; at most one is not empty. `nodes` then has those
  // of the start, which the spec does not.
  std::string hosts_file;       // absolute after parsing
  std::string dns;              // NAME[:PORT]
  std::string token_file, tls;  // a file, a folder of certificates; at most one is not empty
  SlurmUse slurm = SlurmUse::Auto;
  SshConfig ssh;
  /// How long before the end of the Slurm job the run stops; 0: it does not.
  Duration stop_before_end = std::chrono::minutes(2);
  /// Return whether nodes may come while the run goes on.
  bool finds_nodes() const { return !hosts_file.empty() || !dns.empty(); }
  /// Return whether the job says where its nodes are.
  bool names_nodes() const { return !nodes.empty() || finds_nodes(); }
  bool operator==(const ClusterConfig&) const = default;
};

/// What runs once on each node, before its first workers.
struct NodeSetupConfig {
  std::vector<std::string> command;  // empty: nothing
  Duration timeout = std::chrono::minutes(30);
  bool operator==(const NodeSetupConfig&) const = default;
};

/// Which files of working_dir are the run's code, which nodes get from train-run.
struct ShipConfig {
  bool on = false;
  std::vector<std::string> files;  // patterns (path_rules.h); empty: all but what is ignored
  std::uint64_t bytes_max = std::uint64_t{1} << 30;
  bool operator==(const ShipConfig&) const = default;
};

struct JobSpec {
  std::vector<std::string> command;  // argv; a shell string becomes {"/bin/sh", "-c", …}
  std::string working_dir;           // absolute after parsing
  ShipConfig ship;
  std::map<std::string, std::string> env;
  std::vector<std::vector<std::string>> setup;  // argv of each: once a run, where train-run runs
  NodeSetupConfig per_node_setup;
  boost::json::object train_loop_config;
  Backend backend = Backend::Torch;
  std::string collectives = "auto";  // auto | gloo | nccl
  Duration collective_timeout = std::chrono::minutes(30);
  BackendConfig backend_config;
  bool deterministic = false;  // LibTorch computes the same bits each time, or says that it cannot
  ScalingConfig scaling_config;
  RunConfig run_config;
  std::map<std::string, DatasetSpec> datasets;
  boost::json::object metadata;
  std::string resume_from_checkpoint;  // empty: none; absolute after parsing
  ClusterConfig cluster;
  bool operator==(const JobSpec&) const = default;
};

}  // namespace train
