// Messages between the launcher and traind, between traind and a supervisor, and over traind's
// control socket.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/node_digests.h"
#include "lib/model/node_sample.h"
#include "lib/model/node_setup.h"
#include "lib/model/offered_gpu.h"
#include "lib/model/pool_run.h"
#include "lib/model/process_limits.h"
#include "lib/model/resources.h"
#include "lib/model/worker_binding.h"
#include "lib/wire/message_type.h"

namespace train {

struct AttachRun {  // the launcher takes, or renews, its lease on this node for one run
  static constexpr MessageType kType = MessageType::AttachRun;
  std::string run_id, run_name;
  std::uint64_t generation = 0;  // fencing: daemons refuse older ones
  std::int64_t heartbeat_ms = 1000, dead_after_ms = 10000, orphan_timeout_ms = 600000;
  // They prove who owns the run: lib/net/run_owner.h.
  std::string owner_public_key, owner_signature;
  std::string user;  // the user that the run's workers run as here; empty: traind chooses
  // Who started the run, for the queue. traind believes it only where it knows no better.
  std::string submitter = {};
  TRAIN_FIELDS(run_id, run_name, generation, heartbeat_ms, dead_after_ms, orphan_timeout_ms,
               owner_public_key, owner_signature, user, submitter)
};

struct NodeOffer {  // traind's answer to AttachRun, repeated when the free resources change
  static constexpr MessageType kType = MessageType::NodeOffer;
  std::string node_name, host;
  std::vector<std::string> addresses;  // how other nodes can reach this one: numeric, best first
  // free: for this run, without subtracting its own claims, but without what is kept for the runs
  // that come before it.
  Resources total, free;
  std::vector<std::uint32_t> attempts;  // this run's attempts whose supervisors live here
  bool draining = false;                // the node accepts no new work; NodeDraining tells why
  std::map<std::string, std::string> labels = {};
  std::vector<OfferedGpu> gpus = {};  // total.gpu of them
  // What the other runs of the same owner have here, and what those want on all nodes that wait
  // before this one: cores and GPUs.
  Resources owner_has = {}, owner_wants = {};
  // The runs that wait for room here before this one, the first kRunsBeforeMax. For an asker of
  // generation 0, which is no run: all that have something here or wait, the first kPoolRunsMax.
  std::vector<PoolRun> runs = {};
  bool operator==(const NodeOffer&) const = default;
  TRAIN_FIELDS(node_name, host, addresses, total, free, attempts, draining, labels, gpus, owner_has,
               owner_wants, runs)
};

// The launcher says what to keep for the run here, in place of what it said before: room for which
// it waits, or that of its workers, for their next attempt.
struct ClaimRoom {
  static constexpr MessageType kType = MessageType::ClaimRoom;
  QueuePlace place = {};
  std::int32_t workers = 0;       // that it wants on all nodes; 0: it wants nothing any more
  std::int32_t workers_here = 0;  // for whom this node keeps room, at most
  Resources per_worker = {};
  Resources ingest = {};                     // for ingest workers and workers of other roles here
  std::vector<std::string> gpu_choice = {};  // as in PrepareAttempt
  bool operator==(const ClaimRoom&) const = default;
  TRAIN_FIELDS(place, workers, workers_here, per_worker, ingest, gpu_choice)
};

/// What workers of a role beside the one that trains claim on a node.
struct RoleClaim {
  std::int32_t workers = 0;  // here
  Resources per_worker = {};
  bool operator==(const RoleClaim&) const = default;
  TRAIN_FIELDS(workers, per_worker)
};

struct PrepareAttempt {  // spawn a supervisor for the frame's attempt
  static constexpr MessageType kType = MessageType::PrepareAttempt;
  std::int32_t node_rank = 0, local_world_size = 0;  // of the workers that train
  Resources per_worker;
  std::vector<RoleClaim> other_roles = {};  // in the order of WorkerRanks::role; from 1
  ProcessLimits limits;
  bool bind_master = false;           // node rank 0: hold the master port
  std::int32_t ports_per_worker = 0;  // hold so many ports for each worker, too
  // For these ports, as other nodes reach them; "127.0.0.1" if all workers are on one node.
  std::string bind_address;
  // The generation that began the attempt; part of the names of its pending checkpoints.
  std::uint64_t generation = 0;
  std::string run_dir;         // in storage, a path or a URL; shards go there
  std::string storage_marker;  // the text that the launcher left there; empty: none
  // The variables for access to an object store, including secrets.
  std::map<std::string, std::string> storage_env;
  bool may_relay = false;  // if run_dir is not visible here, ReadFile transfers checkpoints
  bool no_access = false;  // it was not visible in an earlier attempt: do not wait for it
  std::int64_t stop_grace_ms = 30000;
  // After this time a shard of a checkpoint is given up.
  std::int64_t upload_timeout_ms = 600000;
  // Checkpoints stay on the disks of this many nodes; 0: they go to storage.
  std::int32_t replicas = 0;
  std::uint64_t output_bytes_max = 256u << 20;  // spool limit per rank and stream
  // Only for workers on standby; once the attempt begins, it is requested again.
  bool standby = false;
  // What is granted. traind fills it in, and the supervisor reports it to a restarted traind.
  Resources claimed;
  std::vector<std::string> gpus;
  Resources ingest = {};  // what all ingest workers here claim, at their greatest number
  // Which GPUs may be granted: names, or UUIDs and beginnings of UUIDs; empty: all.
  std::vector<std::string> gpu_choice = {};
  bool refuse_gpus_in_use = false;  // by a process of no run; else `notes` say so
  std::string bind = {};            // how workers are bound to CPUs: lib/model/cpu_binding.h
  // traind fills them in: one for each worker, by local rank (none: not bound), and what the user
  // should know.
  std::vector<WorkerBinding> bindings = {};
  std::vector<std::string> notes = {};
  DigestOrder digests = {};
  NodeSetup setup = {};  // runs before Prepared is said, and before workers on standby start
  // The launcher's folder with the job's code, which is brought here before all that, and in whose
  // copy all processes of the job start; empty: none.
  std::string code = {};
  TRAIN_FIELDS(node_rank, local_world_size, per_worker, bind_master, bind_address, generation,
               run_dir, stop_grace_ms, output_bytes_max, standby, claimed, gpus, storage_marker,
               storage_env, may_relay, no_access, upload_timeout_ms, replicas, limits, ingest,
               gpu_choice, refuse_gpus_in_use, bind, bindings, notes, digests, ports_per_worker,
               setup, code, other_roles)
};

struct AttemptLost {  // its supervisor ended without being released; its workers are dead
  static constexpr MessageType kType = MessageType::AttemptLost;
  std::string reason;
  bool standby = false;  // it had only workers on standby
  TRAIN_FIELDS(reason, standby)
};

struct DetachRun {  // the run is over for this launcher: release its resources here
  static constexpr MessageType kType = MessageType::DetachRun;
  bool keep_data = false;       // checkpoints that exist nowhere else
  std::int32_t exit_code = -1;  // of the run, if it has ended
  TRAIN_FIELDS(keep_data, exit_code)
};

inline constexpr std::int64_t kKeepOrphanTimeoutMs = -1;
struct LauncherState {  // traind → supervisor: starts and stops the orphan clock
  static constexpr MessageType kType = MessageType::LauncherState;
  bool present = true;
  std::uint64_t generation = 0;
  // kKeepOrphanTimeoutMs: unchanged, from a traind that knows no lease of the run.
  std::int64_t orphan_timeout_ms = 600000;
  TRAIN_FIELDS(present, generation, orphan_timeout_ms)
};

struct SupervisorHello {  // supervisor → traind, each time a traind connects to its socket
  static constexpr MessageType kType = MessageType::SupervisorHello;
  std::string run_id;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  Resources claimed;
  std::vector<std::string> gpus;
  std::string build;
  // The highest that it knows; a restarted traind fences older launchers with it.
  std::uint64_t generation = 0;
  bool standby = false;  // its attempt has not begun
  std::vector<WorkerBinding> bindings = {};
  TRAIN_FIELDS(run_id, attempt, pid, claimed, gpus, build, generation, standby, bindings)
};

// A process of an earlier run that waits for the next one, with our ends of its output's pipes.
struct KeptWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  std::int32_t stdout_fd = -1, stderr_fd = -1;
  std::string mark;                        // a variable that it was started with: "RANK=3"
  std::string group;                       // the name of its cgroup
  std::map<std::string, std::string> env;  // that it has now
  TRAIN_FIELDS(rank, pid, stdout_fd, stderr_fd, mark, group, env)
};

// supervisor → itself, when it begins anew with an execve() of its own program. No link carries it.
struct KeptWorkers {
  static constexpr MessageType kType = MessageType::KeptWorkers;
  SupervisorHello known;  // what the old one said last
  std::vector<KeptWorker> workers;
  std::string unread;  // what traind has sent over the link, and nobody has handled
  std::string code;    // PrepareAttempt::code that they have loaded
  TRAIN_FIELDS(known, workers, unread, code)
};

// traind → launchers: checkpoint and leave this node; when the grace is over, traind stops the
// rest.
struct NodeDraining {
  static constexpr MessageType kType = MessageType::NodeDraining;
  std::int64_t grace_ms = 0;  // from now
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

// traind → launchers, each 2 s: newer ones replace older ones
struct NodeStatus {
  static constexpr MessageType kType = MessageType::NodeStatus;
  std::int64_t taken_us = 0;  // when, by the node's CLOCK_MONOTONIC
  NodeSample node = {};
  std::vector<GpuSample> gpus = {};
  // Of them, those of the run's newest attempt here, as its workers' CUDA_VISIBLE_DEVICES lists
  // them.
  std::vector<std::string> granted = {};
  TRAIN_FIELDS(taken_us, node, gpus, granted)
};

struct DrainNode {  // `traind drain` → traind, over its control socket
  static constexpr MessageType kType = MessageType::DrainNode;
  std::int64_t grace_ms = 0;
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

inline constexpr const char* kRestartedOption = "--restarted";

struct DetachController {  // `train-run --detach` → traind, over its control socket
  static constexpr MessageType kType = MessageType::DetachController;
  std::vector<std::string> argv;
  /// Run instead when it dies, once run_dir exists. The word kRestartedOption tells it so.
  std::vector<std::string> resume_argv;
  std::string working_dir;
  std::map<std::string, std::string> env;  // the whole environment
  std::string run_dir;
  TRAIN_FIELDS(argv, resume_argv, working_dir, env, run_dir)
};

// The launcher of a detached run → traind: take its place if it is gone. The order holds for this
// launcher: it ends with the run, and when a launcher of another generation attaches.
struct PrepareFailover {
  static constexpr MessageType kType = MessageType::PrepareFailover;
  // Of train-run: they resume the run as a detached controller. traind adds kFailoverMarkOption,
  // and kFailoverOption or kFailoverCheckOption.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> env;  // the whole environment
  std::string run_dir;
  std::string storage_mark;      // what the launcher left there: its generation, a space, the text
  std::int64_t wait_ms = 15000;  // from the end of the launcher's link to the first attempt
  TRAIN_FIELDS(arguments, env, run_dir, storage_mark, wait_ms)
};
inline constexpr const char* kFailoverOption = "--failover";           // RUN_ID
inline constexpr const char* kFailoverMarkOption = "--failover-mark";  // storage_mark
inline constexpr const char* kFailoverCheckOption = "--failover-check";

struct FailoverAnswer {  // traind's answer to each PrepareFailover
  static constexpr MessageType kType = MessageType::FailoverAnswer;
  bool ready = false;
  std::string why;  // it is not
  TRAIN_FIELDS(ready, why)
};

struct CancelFailover {  // the launcher has chosen another node
  static constexpr MessageType kType = MessageType::CancelFailover;
  TRAIN_FIELDS()
};

// Asked after the handshake by a train-run that may have to take a run over; no AttachRun precedes.
struct AskLauncher {
  static constexpr MessageType kType = MessageType::AskLauncher;
  std::string run_id;
  TRAIN_FIELDS(run_id)
};
struct LauncherTold {  // traind's answer: whether a launcher of that run is connected to it
  static constexpr MessageType kType = MessageType::LauncherTold;
  bool attached = false;
  TRAIN_FIELDS(attached)
};

struct DetachedController {  // traind's answer, repeated for each replacement that it starts
  static constexpr MessageType kType = MessageType::DetachedController;
  std::int64_t pid = 0;
  TRAIN_FIELDS(pid)
};

struct ControllerEnded {  // it will not be restarted
  static constexpr MessageType kType = MessageType::ControllerEnded;
  std::int32_t exit_code = 0;  // or 128 + signal
  std::string said;            // what it printed, if it ended before it owned the run
  TRAIN_FIELDS(exit_code, said)
};

}  // namespace train
