#include "launcher/spec/fields.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lib/model/built_in_maps.h"
#include "lib/model/ingest_roster.h"
#include "lib/model/pool_run.h"

namespace train::spec {
namespace {

using Ref = FieldRef;

constexpr std::array<std::string_view, 3> kCollectives{"auto", "gloo", "nccl"};
constexpr std::array<std::string_view, 4> kStrategies{"PACK", "SPREAD", "STRICT_PACK",
                                                      "STRICT_SPREAD"};
constexpr std::array<std::string_view, 2> kOrders{"max", "min"};
constexpr std::array<std::string_view, 2> kStorageNeeds{"auto", "required"};
constexpr std::array<std::string_view, 4> kCallbacks{"csv", "json", "tensorboard", "mlflow"};
constexpr std::array<std::string_view, 7> kNotifyEvents{
    "started", "restarted", "hung", "checkpoint", "failed", "finished", "stopped"};
constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warning", "error"};
constexpr std::array<std::string_view, 3> kHangActions{"auto", "observe", "fail"};
constexpr std::array<std::string_view, 2> kGpuInUses{"warn", "refuse"};
constexpr std::array<std::string_view, 3> kDigestChecks{"warn", "refuse", "off"};
constexpr std::array<std::string_view, 1> kAutomatic{"auto"};
constexpr std::array<std::string_view, 3> kSlurmUses{"auto", "never", "required"};

constexpr std::array<std::string_view, 9> kLimitNames{"as",      "core",   "cpu",   "data", "fsize",
                                                      "memlock", "nofile", "nproc", "stack"};

constexpr std::int64_t kPidsMax = 4'194'304;  // Linux's limit
constexpr std::int64_t kUserBytesMax = 255;   // Linux's LOGIN_NAME_MAX
constexpr std::int64_t kDayMs = 86'400'000;

// clang-format off
constexpr std::array kFields{
    Field{"version", Kind::Version, nowhere, "The version of this format: 1."},
    Field{"extends", Kind::Extends, nowhere, "The path of a spec, relative to this one, that supplies keys missing here. Mappings merge key by key; other values here replace those there. That spec cannot extend another. Its own relative paths start at its folder.", {}, 0, 0, {}, R"("base.yaml")"},
    Field{"name", Kind::Name, [](const Target& t) -> Ref { return &t.spec->run_config.name; },
          "The run's name: its folder under storage_path. Reusing the name resumes an unfinished run.", {}, 0, 0, "the file's name (for job.yaml its folder's) and the time, like vit-20261121-101500", R"("vit-cifar10")"},
    Field{"command", Kind::Command, [](const Target& t) -> Ref { return &t.spec->command; },
          "The worker's program and arguments. It starts in working_dir. traind runs a list as is and passes a string to /bin/sh -c, which replaces variables itself.", {}, 0, 0, "required", R"(["./vit", "--verbose"])"},
    Field{"working_dir", Kind::Path, [](const Target& t) -> Ref { return &t.spec->working_dir; },
          "The folder in which workers start.", {}, 0, 0, "the spec's folder", R"(".")"},
    Field{"ship", Kind::Ship, [](const Target& t) -> Ref { return &t.spec->ship; },
          "Send the files of working_dir to the nodes, which then need not have them: true sends all but what .trainignore, or without one .gitignore, leaves out there and in each folder; a list sends the files and folders that its patterns match, written as in .gitignore. {files: [patterns], max: 4GiB} also says how large all of them may be (1GiB). Files that the job's commands name by a relative path are always sent, such as the program; .git and storage_path never are. Workers start in a copy on their node, which is removed with the run; code/ in the run's folder has the files as they were before the first attempt (docs/clusters.md).", {}, 0, 0, {}, R"(["src", "*.py", "configs"])"},
    Field{"env", Kind::Environment, [](const Target& t) -> Ref { return &t.spec->env; },
          "The workers' environment, on top of the submitter's. Write secrets as references; train-run resolves them at launch and never stores them: env:NAME (the submitter's variable) or file:PATH (the file's text without its last newline; file:// stays a URL).", {}, 0, 0, {}, R"({"OMP_NUM_THREADS": "4", "HF_TOKEN": "env:HF_TOKEN"})"},
    Field{"setup", Kind::Commands, [](const Target& t) -> Ref { return &t.spec->setup; },
          "Commands that run once a run on train-run's machine, one after the other, before any worker starts: each a list, or a string for /bin/sh. They start in working_dir, with the workers' environment and the variables TRAINRUN_RUN_NAME and TRAINRUN_RUN_PATH; setup.log in the run's folder has their output. If one fails, the run ends. Once all have succeeded, neither a restart nor resume runs them again.", {}, 0, 64, {}, R"(["./download.sh", ["python3", "prepare.py", "--fast"]])"},
    Field{"per_node_setup", Kind::Section, nowhere, "What runs once on each node, before its first workers start, also on a node that joins later."},
    Field{"per_node_setup.command", Kind::Command, [](const Target& t) -> Ref { return &t.spec->per_node_setup.command; },
          "The command. It runs as the workers' user, in working_dir, in the workers' environment without a rank, and within their limits. attempts/*/nodes/*/setup.log in the run's folder has its output. If it fails, its node could not start (max_start_failures). A node that was started anew since then runs it again.", {}, 0, 0, {}, R"("rsync -a /nfs/data/ /scratch/data/")"},
    Field{"per_node_setup.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->per_node_setup.timeout; },
          "How long it may take. After it, the command is killed, and has failed.", {}, 100, 30 * kDayMs},
    Field{"train_loop_config", Kind::Free, [](const Target& t) -> Ref { return &t.spec->train_loop_config; },
          "Any values. Workers read them with their types, as train::Config. YAML 1.2 defines numbers, true, false and null.", {}, 0, 0, {}, R"({"lr": 0.001, "epochs": 10, "batch_size": 512})"},
    Field{"backend", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->backend); },
          "How the workers communicate. torch: they form a c10d process group, and traind reserves a master port for it. tensorflow, jax: their variables, too, and a port for each worker; mpi: traind serves MPICH's PMI to them; horovod: traind serves the rendezvous; torchft: replica groups, each a run of its own, find each other by torchft's lighthouse, which train-run starts; custom: your own commands, in backend_config (docs/backends.md). none: torchrun's variables except MASTER_ADDR and MASTER_PORT, and no port.", kBackends},
    Field{"backend_config", Kind::Section, nowhere, "Settings of the backend. Each key is for some backends only."},
    Field{"backend_config.collectives", Kind::Choice, [](const Target& t) -> Ref { return &t.spec->collectives; },
          "torch: the collectives library. auto: nccl on GPUs, gloo on CPUs, but ranks that are all on one "
          "node add up tensors of the CPU in memory that they share. gloo: always its connections.", kCollectives},
    Field{"backend_config.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->collective_timeout; },
          "torch: how long a collective may wait for a rank.", {}, 1000, 30 * kDayMs},
    Field{"backend_config.deterministic", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->deterministic; },
          "torch: set CUBLAS_WORKSPACE_CONFIG=:4096:8 in the workers' environment, unless env or the submitter's environment sets it, and have programs that link the SDK for LibTorch compute with deterministic algorithms only. They call train::reproducible(seed) to set the seeds, too. Python programs call torch.use_deterministic_algorithms(True)."},
    Field{"backend_config.pmi", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->backend_config.pmi); },
          "mpi: how the processes of the program find each other. pmi1: as MPICH and what derives from it do. pmix: as Open MPI does; libpmix has to be installed on each node, or come with that Open MPI.", kPmis},
    Field{"backend_config.publish", Kind::Command, [](const Target& t) -> Ref { return &t.spec->backend_config.publish; },
          "custom: a command that runs for each worker, where it will run, before any worker starts. It prints one JSON value of at most 64 KiB, such as an address. By default, the value is the address of the worker's ports.", {}, 0, 0, {}, R"("./publish.sh")"},
    Field{"backend_config.on_start", Kind::Command, [](const Target& t) -> Ref { return &t.spec->backend_config.on_start; },
          "custom: a command that runs for each worker once all have published. TRAINRUN_PEERS is the list of the values, by rank. The lines NAME=VALUE that it prints become the worker's environment.", {}, 0, 0, {}, R"("./on_start.sh")"},
    Field{"backend_config.on_training_start", Kind::Command, [](const Target& t) -> Ref { return &t.spec->backend_config.on_training_start; },
          "custom: a command that runs for each worker once on_start has ended for all of them, right before the workers start.", {}, 0, 0, {}, R"("./check.sh")"},
    Field{"backend_config.on_shutdown", Kind::Command, [](const Target& t) -> Ref { return &t.spec->backend_config.on_shutdown; },
          "custom: a command that runs for each worker after its attempt has ended on its node, also after a failure, for at most stop_grace.", {}, 0, 0, {}, R"("./clean.sh")"},
    Field{"backend_config.hook_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->backend_config.hook_timeout; },
          "custom: how long each of these commands may take.", {}, 100, kDayMs},
    Field{"backend_config.ports", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->backend_config.ports; },
          "custom: how many ports to hold for each worker. TRAINRUN_PORTS has their addresses.", {}, 0, 16},
    Field{"backend_config.replica_groups", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->backend_config.replica_groups; },
          "torchft: how many groups there are, each with num_workers workers. Required for torchft.", {}, 1, kReplicaGroupsMax, "required for torchft", "4"},
    Field{"backend_config.min_replicas", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->backend_config.min_replicas; },
          "torchft: how many groups are enough to train. With fewer, the run ends.", {}, 1, kReplicaGroupsMax},
    Field{"backend_config.lighthouse", Kind::TextList, [](const Target& t) -> Ref { return &t.spec->backend_config.lighthouse; },
          "torchft: the program that is the lighthouse, and its arguments; train-run adds --min_replicas and --bind. A name without a folder is looked for beside the Python of the command, then on PATH. By default, torchft_lighthouse.", {}, 0, 4096, {}, R"(["torchft_lighthouse", "--join_timeout_ms", "10000"])"},
    Field{"scaling_config", Kind::Section, nowhere, "How many workers, and what each needs."},
    Field{"scaling_config.num_workers", Kind::Count, [](const Target& t) -> Ref { return &t.spec->scaling_config.num_workers; },
          "Workers on all nodes together: a number, {min: 4, max: 8}, or auto. With a range, the group starts with as many as fit, continues with fewer if it loses a node, and grows at a checkpoint if there is capacity. auto: one for each GPU of the nodes if workers use GPUs, else one for each core that their traind offers; train-run asks the nodes before the run begins, and the number stays. 0: the program runs alone, here, in place of train-run, with its terminal, for a debugger; nothing restarts it.", kAutomatic, 0, kWorkersMax, {}, "8"},
    Field{"scaling_config.use_gpu", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->scaling_config.use_gpu; },
          "Give each worker GPUs. Without it, workers see none (CUDA_VISIBLE_DEVICES is empty), unless env sets that variable."},
    Field{"scaling_config.resources_per_worker", Kind::Resources, [](const Target& t) -> Ref { return &t.spec->scaling_config.resources_per_worker; },
          "What a worker claims on its node: CPU (cores; 0 claims none), GPU (a whole number, or a part of one, such as 0.5: then several workers share a GPU, and each sees that one only), memory (size), and your own resources. Names are case-sensitive.", {}, 0, 0, "CPU: 1; GPU: 1 with use_gpu, else 0", R"({"CPU": 4, "GPU": 1, "memory": "16GiB"})"},
    Field{"scaling_config.placement_strategy", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->scaling_config.placement_strategy); },
          "PACK uses as few nodes as possible, SPREAD as many. STRICT_PACK requires one node for all workers, STRICT_SPREAD a separate node for each.", kStrategies},
    Field{"scaling_config.workers_per_node", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->scaling_config.workers_per_node; },
          "How many workers each node gets, no more and no fewer, as torchrun's --nproc-per-node; 0: as many as fit. num_workers (min and max) must be a multiple of it, and placement_strategy PACK.", {}, 0, kWorkersMax},
    Field{"scaling_config.standby_workers", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->scaling_config.standby_workers; },
          "How many processes the supervisors keep ready, beside the workers, for a restart: they have loaded their libraries and wait in the SDK's first call. With as many as num_workers, the complete restart is warm. They claim no resources but need memory. Only programs that use the SDK can stand by.", {}, 0, kWorkersMax},
    Field{"scaling_config.cpu_limit", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->scaling_config.cpu_limit; },
          "true: a worker gets no more CPU time than it claims. false: its claim is its share when CPUs are scarce, and it can use idle CPUs. Both require that traind may write cgroups."},
    Field{"scaling_config.pids_per_worker", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->scaling_config.pids_per_worker; },
          "How many processes and threads a worker may have, if traind may write cgroups. 0: no limit of its own; all workers of the run on a node together may have half of what the node's kernel allows (kernel.pid_max, kernel.threads-max).", {}, 0, kPidsMax},
    Field{"scaling_config.label_selector", Kind::Labels, [](const Target& t) -> Ref { return &t.spec->scaling_config.label_selector; },
          "Which nodes workers may run on, as in Ray: label → value, !value, in(a,b) or !in(a,b). A mapping is for all workers; a list has a mapping for each worker, {} for one that may run anywhere. Nodes have the labels host, arch and gpu (the model), and those of traind --label.", {}, 0, 0, {}, R"({"gpu": "H100", "rack": "!r2"})"},
    Field{"scaling_config.bind", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->scaling_config.bind); },
          "To which CPUs of its node each worker is bound, as torchrun's --numa-binding: to those of the NUMA node of its GPU (node), of that node's socket (socket), to cores of its own there (exclusive), or to one last-level cache (core-complex). Memory comes from that NUMA node first. Without GPUs, workers are dealt to the NUMA nodes in blocks. Only CPUs that traind may use itself are used.", kCpuBindings},
    Field{"scaling_config.gpus", Kind::Gpus, [](const Target& t) -> Ref { return &t.spec->scaling_config.gpus; },
          "The only GPUs of each node that workers may get: indexes in the order of the PCI bus, or UUIDs or their beginnings. Requires use_gpu.", {}, 0, 0, "all", R"([0, "GPU-8f2c"])"},
    Field{"scaling_config.gpu_in_use", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->scaling_config.gpu_in_use); },
          "What follows if a process of no run uses a GPU that a worker would get, although no idle one is left. warn: train-run says who uses it. refuse: the start fails, and says so.", kGpuInUses},
    Field{"roles", Kind::Roles, [](const Target& t) -> Ref { return &t.spec->scaling_config; },
          "Workers with programs of their own, which are placed, started, restarted and ended together (docs/roles.md). The first role trains: its command, num_workers, use_gpu and resources_per_worker may stand here in place of those at the top and in scaling_config. Each other role has a name, a command, num_workers (1), resources_per_worker (CPU: 1), and perhaps use_gpu, env (on top of the job's) and label_selector. Its workers do not report; they end once all workers of the first role have ended.", {}, 0, kRolesMax, {}, R"([{"name": "trainer", "command": ["./train"], "num_workers": 4}, {"name": "reader", "command": ["./reader"], "num_workers": 2}])"},
    Field{"run_config", Kind::Section, nowhere, "The run's location and limits, and what it keeps."},
    Field{"run_config.name", Kind::Name, [](const Target& t) -> Ref { return &t.spec->run_config.name; },
          "The same as the top-level name, as in Ray Train. If you set both, they must be equal.", {}, 0, 0, "the top-level name"},
    Field{"run_config.storage_path", Kind::Storage, [](const Target& t) -> Ref { return &t.spec->run_config.storage_path; },
          "A local or NFS folder that holds each run's folder, or s3://bucket/folder, gs://bucket/folder, hdfs://namenode/folder (docs/checkpoints.md).", {}, 0, 0, "~/train_results", R"("/nfs/runs")"},
    Field{"run_config.shared_storage", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.shared_storage); },
          "Whether every node must see storage_path. auto: train-run relays checkpoints of nodes that do not. required: train-run refuses such nodes.", kStorageNeeds},
    Field{"run_config.failure_config", Kind::Section, nowhere, "What happens after a failure."},
    Field{"run_config.failure_config.max_failures", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_failures; },
          "How many worker deaths (with a fixed num_workers, also lost nodes) a run survives by restarting from the newest checkpoint; -1: any number, as each group of torchft does by default. A newer checkpoint resets the count.", {}, -1},
    Field{"run_config.failure_config.max_start_failures", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_start_failures; },
          "The same for workers whose SDK program dies before the group's first report or barrier; -1: any number.", {}, -1,
          std::numeric_limits<int>::max(), "max_failures"},
    Field{"run_config.failure_config.max_preemptions", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.max_preemptions; },
          "How many drained nodes (with {min, max}, also lost ones) a run survives; -1: any number. A newer checkpoint resets the count.", {}, -1},
    Field{"run_config.failure_config.hang_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.hang_timeout; },
          "How long a worker may show no sign of life (a batch, a step, a report, a phase of its own) before it counts as hung; 0s: no such limit. A worker that computes or reads meanwhile gets twice the time, and one that waits for another rank is not accused. A program without the SDK hangs if it is idle for so long.", {}, 0, 30 * kDayMs},
    Field{"run_config.failure_config.phase_timeouts", Kind::Durations, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.phase_timeouts; },
          "The same for single phases, exactly: start, restore, data, step, collective, once, checkpoint, report, wait, validate, stop, or the name of a phase that the program begins with train::phase.", {}, 1000, 30 * kDayMs, {}, R"({"start": "30m", "step": "5m", "checkpoint": "1h"})"},
    Field{"run_config.failure_config.hang_action", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.failure_config.hang_action); },
          "What follows if a worker hangs. fail: the group fails, which counts towards max_failures. observe: train-run only says so. auto: fail if a limit was given; without one, train-run learns limits from the steps so far, and only says so, until a rank that it had named has hung for twice its limit; from then on, learned limits (10 minutes at least) fail the group of this run, too.", kHangActions},
    Field{"run_config.failure_config.start_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.start_timeout; },
          "How long the nodes may take to prepare (to start a supervisor and look at the storage), and then to start the workers. After it, the attempt counts as a start failure that names the late nodes. 0s: 30 minutes, and no limit for the start from a checkpoint, which may have to be brought to the nodes first.", {}, 0, 30 * kDayMs},
    Field{"run_config.failure_config.stop_grace", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.stop_grace; },
          "The time between TERM and KILL when someone stops a run.", {}, 0, kDayMs},
    Field{"run_config.failure_config.orphan_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.orphan_timeout; },
          "How long workers continue without a launcher, or without their node's traind.", {}, 0, 30 * kDayMs},
    Field{"run_config.failure_config.node_suspect_after", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.node_suspect_after; },
          "The silence after which train-run reconnects to a node. Heartbeats come every second, or more often: at least three in this time.", {}, 1000, kDayMs},
    Field{"run_config.failure_config.node_dead_after", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.node_dead_after; },
          "The silence after which a node counts as lost.", {}, 2000, kDayMs},
    Field{"run_config.failure_config.failover_nodes", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.failover_nodes; },
          "How many other nodes stand ready to take over the controller of a detached run (--detach) if its machine dies. They must see the run's folder. 0: none.", {}, 0, kFailoverNodesMax},
    Field{"run_config.failure_config.backoff", Kind::Section, nowhere, "The wait before the second and later restarts without progress. It doubles each time."},
    Field{"run_config.failure_config.backoff.initial", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.backoff.initial; },
          "The first wait.", {}, 0, kDayMs},
    Field{"run_config.failure_config.backoff.max", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.failure_config.backoff.max; },
          "The longest wait.", {}, 0, kDayMs},
    Field{"run_config.checkpoint_config", Kind::Section, nowhere, "Which checkpoints to keep."},
    Field{"run_config.checkpoint_config.num_to_keep", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.num_to_keep; },
          "How many checkpoints to keep: the best, and always the newest.", {}, 1, std::numeric_limits<int>::max(), "all"},
    Field{"run_config.checkpoint_config.checkpoint_score_attribute", Kind::Text, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.score_attribute; },
          "The metric that decides which checkpoint is best.", {}, 0, std::numeric_limits<int>::max(), "none: the newest is the best", R"("val_acc")"},
    Field{"run_config.checkpoint_config.checkpoint_score_order", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.checkpoint_config.score_order); },
          "Whether the highest or the lowest score is the best.", kOrders},
    Field{"run_config.checkpoint_config.replicas", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.replicas; },
          "How many nodes keep each worker's shard on their disks during the run: the worker's own and the next replicas - 1. A restarted group fetches what it lacks from them. When the run ends, train-run brings the kept checkpoints to the run's folder. 0: shards go there directly. Requires cluster.nodes.", {}, 0, 64},
    Field{"run_config.checkpoint_config.upload_timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.upload_timeout; },
          "The limit for storing a worker's shard, and then for committing the complete checkpoint, both including the wait for their turn. After it, train-run drops the checkpoint with a warning; training continues.", {}, 1000, 30 * kDayMs},
    Field{"run_config.checkpoint_config.validation", Kind::Section, nowhere, "A separate process beside the workers validates committed checkpoints, one at a time. Its metrics override the reported ones, and both determine the best checkpoint."},
    Field{"run_config.checkpoint_config.validation.every", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.every; },
          "Validate each checkpoint whose number is divisible by this; 0: none.", {}, 0, std::numeric_limits<int>::max(), "1 if validation is given, else 0"},
    Field{"run_config.checkpoint_config.validation.command", Kind::Command, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.command; },
          "The program. It starts in working_dir, reads $TRAINRUN_CHECKPOINT_DIR and writes a JSON object of metrics to $TRAINRUN_RESULT_FILE. The SDK does this for a program that registers train::validation.", {}, 0, 0, "the job's own", R"(["python3", "validate.py"])"},
    Field{"run_config.checkpoint_config.validation.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.timeout; },
          "The supervisor kills a validation after this time.", {}, 1000, 30 * kDayMs},
    Field{"run_config.checkpoint_config.validation.use_gpu", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->run_config.checkpoint_config.validation.use_gpu; },
          "true: the process shares the GPUs of the workers on its node. false: it sees no GPU."},
    Field{"run_config.stop", Kind::Stop, [](const Target& t) -> Ref { return &t.spec->run_config.stop; },
          "End the run successfully when rank 0 reports one of these metrics at this value or more.", {}, 0, 0, {}, R"({"epoch": 10, "val_acc": 0.9})"},
    Field{"run_config.callbacks", Kind::Callbacks, [](const Target& t) -> Ref { return &t.spec->run_config; },
          "What train-run writes beside the report log: csv (progress.csv), json (metrics.jsonl, always written), tensorboard (tb/), mlflow (a run on the server of MLFLOW_TRACKING_URI, docs/mlflow.md). {command: [python3, -m, trainrun.callbacks, my:Notify]}, up to 16 times: a program beside train-run that is told what happens in the run (docs/driver.md). The variable TRAINRUN_CALLBACKS (comma-separated, such as my:Notify) adds such programs.", kCallbacks, 0, 16, {}, R"(["csv", {"command": ["python3", "-m", "trainrun.callbacks", "my:Notify"]}])"},
    Field{"run_config.notify", Kind::Notify, [](const Target& t) -> Ref { return &t.spec->run_config.notify; },
          "Whom train-run tells of the run's events, up to 16: {on: [failed], command: [./tell.sh]} runs a program in working_dir, with the facts as JSON on its standard input and in variables; {on: [failed], webhook: URL} sends the same JSON to URL, or to env:NAME or file:PATH, by POST (docs/notify.md). on: started, restarted, hung, checkpoint, failed, finished, stopped; hung, failed and finished by default.", kNotifyEvents, 0, 16, {}, R"([{"on": ["hung", "failed"], "command": ["./tell.sh"]}, {"webhook": "env:SLACK_WEBHOOK"}])"},
    Field{"run_config.log_level", Kind::Choice, [](const Target& t) -> Ref { return &t.spec->run_config.log_level; },
          "train-run writes messages of this level and above to train-run.log in the run's folder. debug includes each report and each order to a node.", kLogLevels},
    Field{"run_config.umask", Kind::Umask, [](const Target& t) -> Ref { return &t.spec->run_config.umask; },
          "The umask(1) of the run and its workers: 077 gives only the owner access to their files, 027 lets the group read them. Only the owner can ever read the spec.", {}, 0, 0, {}, R"("027")"},
    Field{"run_config.rlimits", Kind::Limits, [](const Target& t) -> Ref { return &t.spec->run_config.rlimits; },
          "Limits of each worker, as prlimit(1) names them (as, core, cpu, data, fsize, memlock, nofile, nproc, stack) → a number, or unlimited. Workers inherit the others from traind.", {}, 0, 0, {}, R"({"nofile": 65536, "core": "unlimited"})"},
    Field{"run_config.user", Kind::Text, [](const Target& t) -> Ref { return &t.spec->run_config.user; },
          "The user that the workers run as on the nodes. Each node's traind must allow it (traind --run-as).", {}, 0, kUserBytesMax, "the only user that traind's --run-as names; the one that the launcher's certificate names if --run-as names several, or the first of them for a launcher without a certificate; without --run-as, traind's own user", R"("alice")"},
    Field{"run_config.check_digests", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->run_config.check_digests); },
          "What follows if nodes would not run the same: before workers start, each node tells digests of the program, of the files that the command names and of the shared libraries that the program loads, and the versions of NVIDIA's driver and of NCCL; libraries that it lacks are named, too. warn: train-run names the nodes and what differs. refuse: the start fails. off: nothing is compared.", kDigestChecks},
    Field{"run_config.priority", Kind::Integer, [](const Target& t) -> Ref { return &t.spec->run_config.priority; },
          "The run's place among runs that wait for the same nodes: the one with the highest priority begins first. It ends no run that has begun (docs/clusters.md).", {}, -kPriorityMax, kPriorityMax, {}, "10"},
    Field{"run_config.keep_capabilities", Kind::Boolean, [](const Target& t) -> Ref { return &t.spec->run_config.keep_capabilities; },
          "true: workers of root keep root's capabilities, for example to read other users' files in a container. false: they have none. Workers can never gain any."},
    Field{"datasets", Kind::Entries, nowhere, "Name → dataset, for get_dataset_shard(name)."},
    Field{"datasets.*.format", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.dataset->format); },
          "The format of the files at path (docs/data.md). auto: by the endings of their names. items: rows in the spec itself.", kDatasetFormats},
    Field{"datasets.*.path", Kind::Paths, [](const Target& t) -> Ref { return &t.dataset->paths; },
          "A file, a folder or a glob, or a list of these; also s3://, gs:// and hdfs:// (docs/data.md). Required, except with format: items.", {}, 0, 0, {}, R"("data/train")"},
    Field{"datasets.*.columns", Kind::TextList, [](const Target& t) -> Ref { return &t.dataset->columns; },
          "The columns to read; none: all. Not for format: items.", {}, 0, 0, {}, R"(["image", "label"])"},
    Field{"datasets.*.schema", Kind::Types, [](const Target& t) -> Ref { return &t.dataset->schema; },
          "The types of columns of CSV and JSON files: bool, int8 to int64, uint8 to uint64, float32, float64, string, binary, date32, timestamp. The types of the other columns follow from the first MiB of the first file.", {}, 0, 0, {}, R"({"zip": "string", "age": "float32"})"},
    Field{"datasets.*.delimiter", Kind::Text, [](const Target& t) -> Ref { return &t.dataset->delimiter; },
          "The character between the values of CSV files.", {}, 0, 1, "a tab in files named .tsv, else a comma", R"(";")"},
    Field{"datasets.*.newlines_in_values", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->newlines_in_values; },
          "true: values of CSV files that stand in double quotes may contain ends of lines. Files are then opened more slowly."},
    Field{"datasets.*.labels", Kind::Integer, [](const Target& t) -> Ref { return &t.dataset->labels; },
          "How many bytes of labels stand before each picture of format: cifar. 1: CIFAR-10. 2: CIFAR-100.", {}, 1, 2},
    Field{"datasets.*.size", Kind::Sides, [](const Target& t) -> Ref { return &t.dataset->size; },
          "Height and width that pictures of format: images are decoded and resized to. Without it, the column image has the bytes of the files.", {}, 1, kImageSideMax, {}, "[224, 224]"},
    Field{"datasets.*.mode", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.dataset->mode); },
          "The colours of decoded pictures of format: images: RGB, or L for one channel of luma.", kImageModes},
    Field{"datasets.*.include_paths", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->include_paths; },
          "true: a column path has the path of each picture of format: images."},
    Field{"datasets.*.items", Kind::Items, [](const Target& t) -> Ref { return &t.dataset->items; },
          "The rows: mappings with the same keys. Required with format: items.", {}, 0, 0, {}, R"([{"x": 1}, {"x": 2}])"},
    Field{"datasets.*.mix", Kind::Mix, [](const Target& t) -> Ref { return &t.dataset->mix; },
          "Other datasets of the spec → their weights: this one takes its rows from them, in these proportions, each as its own keys say (docs/data.md).", {}, 0, 64, "none", R"({"text": 0.7, "code": 0.3})"},
    Field{"datasets.*.stopping_condition", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.dataset->stopping_condition); },
          "Where an epoch of a mix ends. stop_on_shortest: where a dataset lacks the row that is its turn. stop_on_longest_drop: after the rows of all; the others share the turns of one that has no more.", kMixStops},
    Field{"datasets.*.rows", Kind::Integer, [](const Target& t) -> Ref { return &t.dataset->rows; },
          "The rows of an epoch of a mix, in place of a stopping condition: a dataset that has no more begins again, in a new order.", {}, 1, std::int64_t{1} << 52, "as the stopping condition says", "5000000"},
    Field{"datasets.*.split", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->split; },
          "true: each worker gets an equal share. false: each gets all rows.", {}, 0, 0, "true for train, false for others"},
    Field{"datasets.*.shuffle", Kind::Shuffle, [](const Target& t) -> Ref { return t.dataset; },
          "A new order for each epoch, based on seed and epoch: true (seed 0), false, or {seed: 1, mode: window, window: 32MiB}. Modes: window mixes rows within `window` of decoded rows, files shuffles the files and keeps their rows in order, global mixes all rows (docs/data.md).", {}, 0, 0, {}, R"({"seed": 1})"},
    Field{"datasets.*.filter", Kind::Filter, [](const Target& t) -> Ref { return &t.dataset->filter; },
          "The rows to read: a condition on their columns, with == != < <= > >= in, is null, and, or, not (docs/data.md).", {}, 0, 0, "all rows", R"("label < 10 and split == 'train'")"},
    Field{"datasets.*.limit", Kind::Integer, [](const Target& t) -> Ref { return &t.dataset->limit; },
          "Read only this many rows, the first ones that pass the filter.", {}, 1, std::numeric_limits<std::int64_t>::max(), "all rows", "1000000"},
    Field{"datasets.*.lanes", Kind::Integer, [](const Target& t) -> Ref { return &t.dataset->lanes; },
          "At how many places of the epoch's order workers read at the same time. A run keeps the number that it began with.", {}, 1, 65536, "16, or a multiple of 16 for more than 16 workers; 1 for an unshuffled dataset that a worker reads alone", "32"},
    Field{"datasets.*.preserve_order", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->preserve_order; },
          "true: a dataset that is not shuffled is read in the order of its files even where workers share it; each of them then decodes all rows."},
    Field{"datasets.*.on_change", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.dataset->on_change); },
          "What happens if a run goes on within an epoch, and the files are not those of its checkpoint. fail: an error lists what changed. restart_epoch: the epoch begins again from its first row.", kOnChanges},
    Field{"datasets.*.map", Kind::Maps, [](const Target& t) -> Ref { return t.dataset; },
          "Maps that change the rows of each batch, one after the other: names, or {name: arguments}, of built-in maps (docs/data.md) and of those that the program registers with train::register_map. {from: train, without: [random_crop]}: those of another dataset.", {}, 0, 64, "none", R"([{"random_crop": {"size": [32, 32], "padding": 4}}, {"normalize": {"mean": [0.5], "std": [0.5]}}, "my_map"])"},
    Field{"datasets.*.preprocessors", Kind::Preprocessors, [](const Target& t) -> Ref { return t.dataset; },
          "Preprocessors that are fitted on the dataset before its first pass, kept in every checkpoint, and applied to each batch before its maps (docs/data.md). {from: train}: those of another dataset, as they were fitted on that one.", {}, 0, 64, "none", R"([{"simple_imputer": ["age"]}, {"standard_scaler": ["age"]}, {"one_hot_encoder": {"columns": ["city"]}}, {"concatenator": {"output": "x", "exclude": ["label"]}}])"},
    Field{"datasets.*.on_error", Kind::OnError, [](const Target& t) -> Ref { return t.dataset; },
          "What follows if a row cannot be decoded. fail: the worker ends. {rows: skip, rows_max: 100}: each worker leaves out and names up to rows_max such rows.", {}, 1, std::numeric_limits<int>::max(), "fail", R"({"rows": "skip", "rows_max": 100})"},
    Field{"dataset_config", Kind::Entries, nowhere, "Dataset's name → how workers get it, as in Ray Train's DataConfig."},
    Field{"dataset_config.*.balance", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->balance; },
          "true: from its second pass on, the workers that share the dataset divide the rows of a step by how fast each was in the pass before, so that slow ones get fewer (docs/data.md)."},
    Field{"dataset_config.*.split", Kind::Boolean, [](const Target& t) -> Ref { return &t.dataset->split; },
          "The same as the dataset's own split. If you set both, they must be equal.", {}, 0, 0, "the dataset's own"},
    Field{"dataset_config.*.ingest_workers", Kind::Count, [](const Target& t) -> Ref { return &t.dataset->ingest.workers; },
          "Processes that read, decode and map the dataset for the workers, beside them: your program, which serves where it calls train::run. A number, or {min: 2, max: 8}: one more while workers wait for rows and the ingest workers are busy, one less while both are idle. Without ingest workers, each worker reads for itself.", {}, 1, kIngestWorkersMax, "none", R"({"min": 2, "max": 8})"},
    Field{"dataset_config.*.ingest", Kind::Section, nowhere, "What the dataset's ingest workers need."},
    Field{"dataset_config.*.ingest.resources_per_worker", Kind::Resources, [](const Target& t) -> Ref { return &t.dataset->ingest.resources_per_worker; },
          "What an ingest worker claims on its node: CPU (cores; 0 claims none) and memory (size). A run claims as many as fit, up to the greatest number, for as long as its workers run.", {}, 0, 0, "CPU: 1", R"({"CPU": 2, "memory": "1GiB"})"},
    Field{"dataset_config.*.ingest.timeout", Kind::Duration, [](const Target& t) -> Ref { return &t.dataset->ingest.timeout; },
          "How long an ingest worker may take from its start until it serves, and how long it may be silent after that. Then it is killed, and another one is started.", {}, 1000, kDayMs},
    Field{"dataset_config.*.ingest.nodes", Kind::TextList, [](const Target& t) -> Ref { return &t.dataset->ingest.nodes; },
          "The nodes where ingest workers run, in turn as far as there is room: names of nodes, or their addresses as the job or --hosts names them; [any]: all nodes. They need no workers there.", {}, 0, 0, "the nodes of the workers", R"(["cpu-1:7070", "cpu-2:7070"])"},
    Field{"metadata", Kind::Free, [](const Target& t) -> Ref { return &t.spec->metadata; },
          "Any values, but not the key data. Each worker's context and every checkpoint hold them.", {}, 0, 0, {}, R"({"team": "vision"})"},
    Field{"resume_from_checkpoint", Kind::Storage, [](const Target& t) -> Ref { return &t.spec->resume_from_checkpoint; },
          "The committed checkpoint to start from: its folder or URL (s3://, gs://, hdfs://).", {}, 0, 0, {}, R"("/nfs/runs/vit/checkpoints/checkpoint_000007")"},
    Field{"sweep", Kind::Sweep, nowhere, "The parameters that train-run sweep tries, and which trials it stops early. A single run does not look at it.", {}, 0, 0, "none", R"({"metric": "loss", "num_trials": 20, "parameters": {"lr": {"log_uniform": [1e-05, 0.1]}}})"},
    Field{"cluster", Kind::Section, nowhere, "The nodes: one of nodes, hosts_file, dns and ssh.hosts. Without any, train-run starts a traind on each node of the Slurm job that it runs in; outside Slurm, a private one on this machine."},
    Field{"cluster.nodes", Kind::Nodes, [](const Target& t) -> Ref { return &t.spec->cluster.nodes; },
          "Addresses of traind: host:port, unix:/PATH, or ssh:[USER@]HOST[:PORT] (see cluster.ssh). By default, train-run uses the variable TRAINRUN_CLUSTER (comma-separated).", {}, 0, 0, {}, R"(["gpu-1:7070", "gpu-2:7070"])"},
    Field{"cluster.hosts_file", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.hosts_file; },
          "A file with a node HOST[:PORT] on each line, in place of cluster.nodes (docs/clusters.md). train-run reads it at the start and every 5 s: an elastic run grows onto new nodes; those that vanish from it are given up once they are dead.", {}, 0, 0, {}, R"("/shared/hosts")"},
    Field{"cluster.dns", Kind::Text, [](const Target& t) -> Ref { return &t.spec->cluster.dns; },
          "NAME[:PORT]: the nodes are the addresses of this name (A, or else AAAA records), in place of cluster.nodes. train-run asks for them at the start and every 5 s, as for cluster.hosts_file. The port is 7070 by default.", {}, 0, 300, {}, R"("mnist:7070")"},
    Field{"cluster.token_file", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.token_file; },
          "The file with the secret that train-run and traind share.", {}, 0, 0, {}, R"("/etc/traind/token")"},
    Field{"cluster.tls", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.tls; },
          "The folder of this user's certificate (ca.crt, tls.crt, tls.key), as traind certs makes it. Use it instead of a token.", {}, 0, 0, {}, R"("~/.config/trainrun/tls")"},
    Field{"cluster.slurm", Kind::Choice, [](const Target& t) -> Ref { return enum_ref(t.spec->cluster.slurm); },
          "Whether train-run starts the daemons itself, by srun, if it runs in a Slurm job (docs/clusters.md). auto: if no nodes are named. never: train-run does not look at Slurm's variables. required: outside a Slurm job, train-run refuses the spec.", kSlurmUses},
    Field{"cluster.ssh", Kind::Section, nowhere, "Hosts that train-run reaches by ssh (docs/clusters.md): it joins the traind of your user there, or starts one, which ends with your last run."},
    Field{"cluster.ssh.hosts", Kind::TextList, [](const Target& t) -> Ref { return &t.spec->cluster.ssh.hosts; },
          "The hosts, [USER@]HOST[:PORT]: another way to write cluster.nodes. You must be able to log in without a password, and their keys must be known.", {}, 0, 0, {}, R"(["gpu-1", "me@gpu-2"])"},
    Field{"cluster.ssh.traind", Kind::Text, [](const Target& t) -> Ref { return &t.spec->cluster.ssh.traind; },
          "The program traind on the hosts. By default, their PATH finds it, or /usr/sbin, /usr/local/sbin, ~/.local/bin.", {}, 0, 1024, {}, R"("~/trainrun/bin/traind")"},
    Field{"cluster.ssh.config", Kind::Path, [](const Target& t) -> Ref { return &t.spec->cluster.ssh.config_file; },
          "The configuration file of ssh (ssh -F). By default, ssh reads yours, ~/.ssh/config.", {}, 0, 0, {}, R"("ssh_config")"},
    Field{"cluster.stop_before_end", Kind::Duration, [](const Target& t) -> Ref { return &t.spec->cluster.stop_before_end; },
          "In a Slurm job: how long before its time limit the run makes a checkpoint and stops, with exit code 75. At least stop_grace and twice the time of the longest checkpoint so far, but never more than a quarter of the job's time. 0s: only Slurm's signals stop the run.", {}, 0, kDayMs},
};

// clang-format on

constexpr std::array kRemovedKeys{
    RemovedKey{"preprocess_datasets", "use datasets.NAME.preprocessors"},
    RemovedKey{"sync_config", "use run_config.storage_path: checkpoints go there by themselves"},
    RemovedKey{"verbose", "use run_config.log_level, and the option --output"},
    RemovedKey{"progress_reporter",
               "use the option --output json or --events all, or run_config.callbacks"},
    RemovedKey{"log_to_file",
               "use train-run logs: the run's folder always has the workers' output"},
};

constexpr std::array<std::string_view, 18> kReservedEnvironment{"RANK",
                                                                "WORLD_SIZE",
                                                                "LOCAL_RANK",
                                                                "LOCAL_WORLD_SIZE",
                                                                "GROUP_RANK",
                                                                "GROUP_WORLD_SIZE",
                                                                "ROLE_RANK",
                                                                "ROLE_WORLD_SIZE",
                                                                "MASTER_ADDR",
                                                                "MASTER_PORT",
                                                                "TORCHELASTIC_RESTART_COUNT",
                                                                "TORCHELASTIC_MAX_RESTARTS",
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

const RemovedKey* removed_key(std::string_view section, std::string_view key) {
  if (!section.empty() && section != "run_config") return nullptr;
  const auto found = std::find_if(kRemovedKeys.begin(), kRemovedKeys.end(),
                                  [key](const RemovedKey& removed) { return removed.key == key; });
  return found == kRemovedKeys.end() ? nullptr : &*found;
}

std::span<const std::string_view> limit_names() { return kLimitNames; }
std::span<const std::string_view> reserved_environment() { return kReservedEnvironment; }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && alphanumeric(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace train::spec
