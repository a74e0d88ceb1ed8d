// One struct a message; PROTOCOL.md says who sends what when. A message travels as a MessagePack
// map: unknown fields are passed over, missing ones keep the default, so that both sides may add
// fields.
#pragma once

#include <cstdint>
#include <map>
#include <msgpack.hpp>
#include <string>
#include <vector>

#include "lib/wire/frame.h"

namespace train {

inline constexpr std::uint32_t kProtocolMin = 2;
inline constexpr std::uint32_t kProtocolMax = 2;

enum class MessageType : std::uint16_t {
  // the link: launcher ↔ traind, traind ↔ supervisor
  Hello = 0x01,
  HelloReply = 0x02,
  Refused = 0x04,
  Heartbeat = 0x05,
  HeartbeatAck = 0x06,
  AttachRun = 0x10,
  NodeOffer = 0x11,
  PrepareAttempt = 0x12,
  AttemptLost = 0x13,
  DetachRun = 0x14,
  LauncherState = 0x15,
  SupervisorHello = 0x16,
  NodeDraining = 0x17,
  DrainNode = 0x18,
  KeepController = 0x19,
  KeptController = 0x1a,
  ControllerEnded = 0x1b,
  // launcher ↔ supervisor, relayed by traind on the frame's attempt
  Prepared = 0x100,
  StartWorkers = 0x101,
  WorkersStarted = 0x102,
  StartFailed = 0x103,
  WorkerJoined = 0x104,
  WorkerExited = 0x105,
  GroupGone = 0x106,
  StopWorkers = 0x107,
  PauseWorkers = 0x108,
  WorkerPaused = 0x109,
  ReportBatch = 0x10a,
  AckReports = 0x10b,
  PartWritten = 0x10c,
  CheckpointOutcome = 0x10d,
  OutputChunk = 0x10e,
  AckOutput = 0x10f,
  CollectiveJoin = 0x110,
  CollectiveResult = 0x111,
  WorkerResult = 0x112,
  ReleaseAttempt = 0x113,
  AttemptSnapshot = 0x114,
  CollectiveAnswered = 0x115,
  StorageTrouble = 0x116,
  RunValidation = 0x120,
  ValidationEnded = 0x121,
  AskCheckpoints = 0x122,
  ReportedCheckpoints = 0x123,
  ReadFile = 0x130,
  FileBytes = 0x131,
  KeepPart = 0x132,
  PartKept = 0x133,
  // supervisor ↔ worker
  WorkerHello = 0x200,
  Welcome = 0x201,
  CheckpointStaged = 0x202,
  OnceBegin = 0x203,
  OnceReply = 0x204,
  OnceEnd = 0x205,
  WorkerError = 0x206,
  WorkerGoodbye = 0x207,
  GoodbyeAck = 0x208,
};

/// Frames of these types pass through traind by their attempt alone; traind never decodes them.
constexpr bool is_relayed(MessageType type) {
  return static_cast<std::uint16_t>(type) >= 0x100 && static_cast<std::uint16_t>(type) < 0x200;
}

// A message without fields is an empty map.
#define TRAIN_NO_FIELDS                                                 \
  template <class Packer>                                               \
  void msgpack_pack(Packer& packer) const {                             \
    packer.pack_map(0);                                                 \
  }                                                                     \
  void msgpack_unpack(const msgpack::object& object) {                  \
    if (object.type != msgpack::type::MAP) throw msgpack::type_error(); \
  }

// ---- the link

struct Hello {  // first frame of the side that connected
  static constexpr MessageType kType = MessageType::Hello;
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string build, role;  // role: launcher | control
  std::string host, node_name;
  std::int64_t pid = 0;
  std::string instance;  // random, of the process: nobody is to talk to itself
  MSGPACK_DEFINE_MAP(protocol_min, protocol_max, build, role, host, node_name, pid, instance)
};
struct HelloReply {  // the listener's answer
  static constexpr MessageType kType = MessageType::HelloReply;
  std::uint32_t protocol = 0;
  std::string build, role, host, node_name;
  std::int64_t pid = 0;
  std::string instance;
  MSGPACK_DEFINE_MAP(protocol, build, role, host, node_name, pid, instance)
};
struct Refused {  // the last frame before the sender closes
  static constexpr MessageType kType = MessageType::Refused;
  std::string code, message, hint;  // code: to_string(Errc)
  MSGPACK_DEFINE_MAP(code, message, hint)
};
struct Heartbeat {
  static constexpr MessageType kType = MessageType::Heartbeat;
  std::uint64_t sequence = 0;
  MSGPACK_DEFINE_MAP(sequence)
};
struct HeartbeatAck {
  static constexpr MessageType kType = MessageType::HeartbeatAck;
  std::uint64_t sequence = 0;
  MSGPACK_DEFINE_MAP(sequence)
};

struct ResourceAmounts {  // of a node: what there is; of a worker: what it claims
  double cpu = 0;
  double gpu = 0;
  std::uint64_t memory_bytes = 0;
  std::map<std::string, double> custom;
  bool operator==(const ResourceAmounts&) const = default;
  MSGPACK_DEFINE_MAP(cpu, gpu, memory_bytes, custom)
};
struct AttachRun {  // the launcher takes, or renews, its lease on this node for one run
  static constexpr MessageType kType = MessageType::AttachRun;
  std::string run_id, run_name;
  std::uint64_t epoch = 0;  // fencing: daemons refuse older ones
  std::int64_t heartbeat_ms = 1000, dead_after_ms = 10000, orphan_timeout_ms = 600000;
  std::string owner_public_key, owner_signature;  // lib/net/run_owner.h: whose the run is
  std::string user;  // that the run's workers shall run as on this node; empty: traind chooses
  MSGPACK_DEFINE_MAP(run_id, run_name, epoch, heartbeat_ms, dead_after_ms, orphan_timeout_ms,
                     owner_public_key, owner_signature, user)
};
struct NodeOffer {  // traind's answer to AttachRun, sent again when what is free changes
  static constexpr MessageType kType = MessageType::NodeOffer;
  std::string node_name, host;
  std::vector<std::string> addresses;   // numeric, best first; how other nodes may reach this one
  ResourceAmounts total, free;          // free: for this run, its own claims not subtracted
  std::vector<std::uint32_t> attempts;  // of this run, whose supervisors live here
  bool draining = false;                // nothing is free here any more: NodeDraining says why
  MSGPACK_DEFINE_MAP(node_name, host, addresses, total, free, attempts, draining)
};
struct ProcessLimits {  // what the kernel holds each worker to
  std::uint32_t umask = 077;
  std::map<std::string, std::int64_t> rlimits;  // "nofile" → soft and hard; −1: unlimited
  bool keep_capabilities = false;
  bool cpu_limit = false;      // no more CPU time than claimed
  std::uint64_t pids_max = 0;  // processes and threads of one; 0: its share of the node's
  bool operator==(const ProcessLimits&) const = default;
  MSGPACK_DEFINE_MAP(umask, rlimits, keep_capabilities, cpu_limit, pids_max)
};
struct PrepareAttempt {  // spawn a supervisor for the frame's attempt
  static constexpr MessageType kType = MessageType::PrepareAttempt;
  std::int32_t node_rank = 0, local_world_size = 0;
  ResourceAmounts per_worker;
  ProcessLimits limits;
  bool bind_master = false;  // node rank 0: hold the master port
  std::string bind_address;  // for it, and what other nodes reach: "127.0.0.1" where all workers
                             // are on one node
  std::uint64_t epoch = 0;   // under which the attempt was begun; names its pending checkpoints
  std::string run_dir;       // in storage, a path or an URL; shards go there
  std::string storage_mark;  // what the launcher left there; empty: nothing
  std::map<std::string, std::string> storage_env;  // how to reach an object store; holds secrets
  bool may_travel = false;  // where that is not there, checkpoints go by ReadFile
  bool no_access = false;   // and it was not there for an attempt before: do not wait for it
  std::int64_t stop_grace_ms = 30000;
  std::int64_t upload_timeout_ms = 600000;  // for a part of a checkpoint; then it is given up
  std::int32_t replicas = 0;  // checkpoints stay on the disks of so many nodes; 0: in storage
  std::uint64_t output_bytes_max = 256u << 20;  // spool limit, a rank and stream
  bool standby =
      false;  // only for workers that wait; the attempt is asked for again once it begins
  // what is granted: traind fills it in, and the supervisor tells it to a restarted traind
  ResourceAmounts claimed;
  std::vector<std::int32_t> gpu_ids;
  MSGPACK_DEFINE_MAP(node_rank, local_world_size, per_worker, bind_master, bind_address, epoch,
                     run_dir, stop_grace_ms, output_bytes_max, standby, claimed, gpu_ids,
                     storage_mark, storage_env, may_travel, no_access, upload_timeout_ms, replicas,
                     limits)
};
struct AttemptLost {  // its supervisor ended without being released; its workers are dead
  static constexpr MessageType kType = MessageType::AttemptLost;
  std::string reason;
  bool standby = false;  // only workers that waited were there
  MSGPACK_DEFINE_MAP(reason, standby)
};
struct DetachRun {  // the run is over for this launcher: release what it holds here
  static constexpr MessageType kType = MessageType::DetachRun;
  bool keep_data = false;  // checkpoints that are nowhere else
  MSGPACK_DEFINE_MAP(keep_data)
};
inline constexpr std::int64_t kKeepOrphanTimeoutMs = -1;
struct LauncherState {  // traind → supervisor; starts and stops the orphan clock
  static constexpr MessageType kType = MessageType::LauncherState;
  bool present = true;
  std::uint64_t epoch = 0;
  std::int64_t orphan_timeout_ms =
      600000;  // kKeepOrphanTimeoutMs: a traind that knows no lease of the run cannot say
  MSGPACK_DEFINE_MAP(present, epoch, orphan_timeout_ms)
};
struct SupervisorHello {  // supervisor → traind, each time a traind connects to its socket
  static constexpr MessageType kType = MessageType::SupervisorHello;
  std::string run_id;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  ResourceAmounts claimed;
  std::vector<std::int32_t> gpu_ids;
  std::string build;
  std::uint64_t epoch = 0;  // the highest that it has heard of: a restarted traind fences with it
  bool standby = false;     // its attempt has not begun
  MSGPACK_DEFINE_MAP(run_id, attempt, pid, claimed, gpu_ids, build, epoch, standby)
};
struct NodeDraining {  // traind → launchers: checkpoint and leave this node; what is still here
                       // when the grace is over is stopped
  static constexpr MessageType kType = MessageType::NodeDraining;
  std::int64_t grace_ms = 0;  // from now on
  std::string reason;
  MSGPACK_DEFINE_MAP(grace_ms, reason)
};
struct DrainNode {  // `traind drain` → traind, over its control socket
  static constexpr MessageType kType = MessageType::DrainNode;
  std::int64_t grace_ms = 0;
  std::string reason;
  MSGPACK_DEFINE_MAP(grace_ms, reason)
};
struct KeepController {  // `train-run --detach` → traind, over its control socket
  static constexpr MessageType kType = MessageType::KeepController;
  std::vector<std::string> argv;
  std::vector<std::string> resume_argv;  // in its place when it dies, once run_dir is there
  std::string working_dir;
  std::map<std::string, std::string> env;  // the whole of it
  std::string run_dir;
  MSGPACK_DEFINE_MAP(argv, resume_argv, working_dir, env, run_dir)
};
struct KeptController {  // traind's answer, and again when it has started another one
  static constexpr MessageType kType = MessageType::KeptController;
  std::int64_t pid = 0;
  MSGPACK_DEFINE_MAP(pid)
};
struct ControllerEnded {  // and is not started again
  static constexpr MessageType kType = MessageType::ControllerEnded;
  std::int32_t exit_code = 0;  // 128 + signal
  std::string said;            // before it owned the run: why it did not come to that
  MSGPACK_DEFINE_MAP(exit_code, said)
};

// ---- launcher ↔ supervisor

struct Prepared {
  static constexpr MessageType kType = MessageType::Prepared;
  std::int32_t node_rank = 0;
  std::uint32_t master_port = 0;  // 0: not asked for
  std::int64_t supervisor_pid = 0;
  std::string spool_dir;
  bool travels = false;  // it does not see the storage: its checkpoints go by ReadFile
  MSGPACK_DEFINE_MAP(node_rank, master_port, supervisor_pid, spool_dir, travels)
};
struct WorkerPlan {
  std::int32_t rank = 0, local_rank = 0;
  MSGPACK_DEFINE_MAP(rank, local_rank)
};
struct StartWorkers {
  static constexpr MessageType kType = MessageType::StartWorkers;
  std::string run_id, run_name;
  std::int32_t world_size = 0, node_rank = 0, node_count = 0;
  std::vector<WorkerPlan> workers;
  std::string master_addr;
  std::uint32_t master_port = 0;
  std::vector<std::string> command;
  std::string working_dir;
  std::map<std::string, std::string>
      env;  // the whole environment but what the supervisor adds for each rank
  std::vector<std::string> job_env;  // the names of those that the spec sets
  std::int32_t restart_count = 0, max_restarts = 0;
  double cpus_per_worker = 1;
  // for the SDK, as JSON texts
  std::string config_json, metadata_json, datasets_json;
  std::string collectives = "auto";
  std::int64_t collective_timeout_ms = 1800000;
  std::string restore_dir;           // empty: none
  std::int64_t restored_epoch = -1;  // the `epoch` it was reported with; −1: none
  std::int32_t standby = 0;  // start so many ahead, without ranks: the attempt has not begun
  MSGPACK_DEFINE_MAP(run_id, run_name, world_size, node_rank, node_count, workers, master_addr,
                     master_port, command, working_dir, env, restart_count, max_restarts,
                     cpus_per_worker, config_json, metadata_json, datasets_json, collectives,
                     collective_timeout_ms, restore_dir, restored_epoch, standby, job_env)
};
struct StartedWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  MSGPACK_DEFINE_MAP(rank, pid)
};
struct WorkersStarted {
  static constexpr MessageType kType = MessageType::WorkersStarted;
  std::vector<StartedWorker> workers;
  std::int32_t stood_by = 0;  // of them: processes that had waited
  MSGPACK_DEFINE_MAP(workers, stood_by)
};
struct StartFailed {  // nothing was left running
  static constexpr MessageType kType = MessageType::StartFailed;
  std::int32_t rank = 0;
  std::string code, message, hint;
  MSGPACK_DEFINE_MAP(rank, code, message, hint)
};
struct WorkerJoined {  // its SDK said hello
  static constexpr MessageType kType = MessageType::WorkerJoined;
  std::int32_t rank = 0;
  std::string build;
  MSGPACK_DEFINE_MAP(rank, build)
};
struct UserError {  // what user code threw
  std::string what, type, stack;
  bool operator==(const UserError&) const = default;
  MSGPACK_DEFINE_MAP(what, type, stack)
};
struct WorkerExited {
  static constexpr MessageType kType = MessageType::WorkerExited;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  bool signaled = false;
  std::int32_t status = 0;  // exit code, or signal number
  bool core_dumped = false, oom_killed = false, stop_requested = false;
  std::int64_t wall_us = 0;                         // when it was reaped, by its node's clock
  std::vector<std::string> last_lines;              // of its output, oldest first
  std::vector<UserError> errors;                    // none or one
  std::uint64_t last_ordinal = 0;                   // reports handed over in this attempt
  std::uint64_t memory_limit = 0, memory_used = 0;  // of oom_killed; limit 0: the machine's own
  std::string memory_limit_of;       // claim, slurm, pod, container, node, or a cgroup's path
  std::uint64_t pids_limit_hit = 0;  // a process or thread beyond so many was refused; 0: none was
  MSGPACK_DEFINE_MAP(rank, pid, signaled, status, core_dumped, oom_killed, stop_requested, wall_us,
                     last_lines, errors, last_ordinal, memory_limit, memory_used, memory_limit_of,
                     pids_limit_hit)
};
struct GroupGone {  // every worker of this node is reaped, its reports and output are sent
  static constexpr MessageType kType = MessageType::GroupGone;
  TRAIN_NO_FIELDS
};
struct StopWorkers {  // TERM, `grace`, KILL; grace 0: KILL
  static constexpr MessageType kType = MessageType::StopWorkers;
  std::int64_t grace_ms = 0;
  std::string reason;
  MSGPACK_DEFINE_MAP(grace_ms, reason)
};
struct PauseWorkers {  // graceful stop, in three steps by `ordinal`; see PROTOCOL.md "Stopping in
                       // good order"
  static constexpr MessageType kType = MessageType::PauseWorkers;
  std::string step;           // pause | advance | finish
  std::uint64_t ordinal = 0;  // advance: the report at which all stop
  std::string reason;
  bool at_checkpoint =
      false;  // pause only at a report with a checkpoint, training goes on till then
  MSGPACK_DEFINE_MAP(step, ordinal, reason, at_checkpoint)
};
struct WorkerPaused {
  static constexpr MessageType kType = MessageType::WorkerPaused;
  std::int32_t rank = 0;
  std::uint64_t ordinal = 0;           // its last report
  std::uint64_t checkpoint_index = 0;  // checkpoints it has reported in this attempt
  bool arrived = false;                // at the report of `advance`, its checkpoint made; else: of
                                       // `pause`
  MSGPACK_DEFINE_MAP(rank, ordinal, checkpoint_index, arrived)
};
struct ReportBatch {  // worker → supervisor → launcher; reports.h reads `data`
  static constexpr MessageType kType = MessageType::ReportBatch;
  std::int32_t rank = 0;
  std::uint64_t first_ordinal = 0;
  std::uint32_t count = 0;
  std::string data;
  MSGPACK_DEFINE_MAP(rank, first_ordinal, count, data)
};
struct ReportAck {
  std::int32_t rank = 0;
  std::uint64_t ordinal = 0;  // this one and all before it are on disk
  MSGPACK_DEFINE_MAP(rank, ordinal)
};
struct AckReports {
  static constexpr MessageType kType = MessageType::AckReports;
  std::vector<ReportAck> acks;
  MSGPACK_DEFINE_MAP(acks)
};
struct WrittenFile {
  std::string path;  // relative to the checkpoint's folder
  std::uint64_t size = 0;
  std::string xxh3;  // 32 hex digits
  bool operator==(const WrittenFile&) const = default;
  MSGPACK_DEFINE_MAP(path, size, xxh3)
};
struct PartWritten {  // one rank's part is written and synced below run_dir, or could not be
  static constexpr MessageType kType = MessageType::PartWritten;
  std::int32_t rank = 0;
  std::uint64_t index = 0;  // this rank's index-th checkpoint of the attempt, from 1
  std::uint64_t report_ordinal = 0;
  std::string dir;  // relative to run_dir
  std::vector<WrittenFile> files;
  std::string metadata_json;
  std::string error;       // empty: fine
  std::string error_code;  // to_string(Errc), where it is known
  bool on_node = false;    // on its node's own disk: to be fetched by ReadFile
  MSGPACK_DEFINE_MAP(rank, index, report_ordinal, dir, files, metadata_json, error, error_code,
                     on_node)
};
struct StorageTrouble {  // supervisor → launcher: something is tried again, for people to read
  static constexpr MessageType kType = MessageType::StorageTrouble;
  std::string text;
  MSGPACK_DEFINE_MAP(text)
};
struct CheckpointOutcome {
  static constexpr MessageType kType = MessageType::CheckpointOutcome;
  std::uint64_t index = 0;
  std::string path, error;  // one of them
  // Below checkpoints/ on a node's own disk: what goes on being of use. Of the path's own kind it
  // is all that does.
  std::vector<std::string> keep;
  MSGPACK_DEFINE_MAP(index, path, error, keep)
};
struct OutputChunk {
  static constexpr MessageType kType = MessageType::OutputChunk;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;   // 1 stdout, 2 stderr
  std::uint64_t offset = 0;  // of data in the stream
  std::string data;
  bool end = false;
  MSGPACK_DEFINE_MAP(rank, stream, offset, data, end)
};
struct AckOutput {
  static constexpr MessageType kType = MessageType::AckOutput;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;
  std::uint64_t offset = 0;  // all before it is in the run's folder
  MSGPACK_DEFINE_MAP(rank, stream, offset)
};
struct CollectiveJoin {  // worker → supervisor → launcher: my part of the sequence-th collective
  static constexpr MessageType kType = MessageType::CollectiveJoin;
  std::int32_t rank = 0;
  std::uint64_t sequence = 0;
  std::string name, data;
  MSGPACK_DEFINE_MAP(rank, sequence, name, data)
};
struct CollectiveResult {  // launcher → supervisors → workers
  static constexpr MessageType kType = MessageType::CollectiveResult;
  std::uint64_t sequence = 0;
  std::vector<std::string> parts;  // by rank
  std::string error;
  MSGPACK_DEFINE_MAP(sequence, parts, error)
};
struct CollectiveAnswered {  // supervisor → a newer launcher: a result that an older one had sent;
                             // ranks of other nodes may still wait for it
  static constexpr MessageType kType = MessageType::CollectiveAnswered;
  std::uint64_t sequence = 0;
  std::vector<std::string> parts;  // by rank
  std::string error;
  MSGPACK_DEFINE_MAP(sequence, parts, error)
};
struct WorkerResult {
  static constexpr MessageType kType = MessageType::WorkerResult;
  std::int32_t rank = 0;
  std::string json;
  MSGPACK_DEFINE_MAP(rank, json)
};
struct ReleaseAttempt {  // the launcher has all it needs: remove the spool and end
  static constexpr MessageType kType = MessageType::ReleaseAttempt;
  TRAIN_NO_FIELDS
};
struct LivingWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  bool joined = false;         // its SDK has said hello
  std::uint64_t reported = 0;  // its last report, acknowledged or not; 0: none yet
  MSGPACK_DEFINE_MAP(rank, pid, joined, reported)
};
struct AttemptSnapshot {  // supervisor → launcher when a launcher (re-)attaches: who lives
  static constexpr MessageType kType = MessageType::AttemptSnapshot;
  std::string phase;  // spawned | prepared | starting | running | stopping | gone
  std::uint32_t master_port = 0;
  std::vector<LivingWorker> alive;
  std::uint64_t settled_checkpoint = 0;  // the newest whose CheckpointOutcome has come; 0: none yet
  MSGPACK_DEFINE_MAP(phase, master_port, alive, settled_checkpoint)
};
struct ReadFile {  // of a part: launcher → supervisor; of the checkpoint to restore: supervisor →
                   // launcher; of what a node keeps: → launcher → traind, on no attempt's frame
  static constexpr MessageType kType = MessageType::ReadFile;
  std::uint64_t id = 0;      // whoever asks chooses it
  std::string folder, path;  // of a part: "PENDING/PART"; of a kept one: "DATA/PART"; else as
                             // StartWorkers.restore_dir
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // at most; an answer has fewer only at the file's end
  MSGPACK_DEFINE_MAP(id, folder, path, offset, bytes)
};
struct FileBytes {
  static constexpr MessageType kType = MessageType::FileBytes;
  std::uint64_t id = 0, offset = 0;  // of the request
  std::uint64_t size = 0;            // of the whole file
  std::string data;
  std::string error, error_code;  // instead; error_code: to_string(Errc)
  MSGPACK_DEFINE_MAP(id, offset, size, data, error, error_code)
};
struct KeepPart {  // launcher → supervisor: keep a copy of a part that another node has
  static constexpr MessageType kType = MessageType::KeepPart;
  std::int32_t rank = 0;    // whose part
  std::uint64_t index = 0;  // of which checkpoint
  std::string dir;          // "DATA/PART", as in PartWritten
  std::vector<WrittenFile> files;
  MSGPACK_DEFINE_MAP(rank, index, dir, files)
};
struct PartKept {  // it is safe on this node's disk, or cannot be kept
  static constexpr MessageType kType = MessageType::PartKept;
  std::int32_t rank = 0;
  std::uint64_t index = 0;
  std::string error, error_code;  // empty: fine
  MSGPACK_DEFINE_MAP(rank, index, error, error_code)
};

struct RunValidation {  // of a committed checkpoint; asked again: it goes on, or its end is said
                        // again
  static constexpr MessageType kType = MessageType::RunValidation;
  std::uint64_t checkpoint = 0;      // its number
  std::string dir;                   // its folder
  std::vector<std::string> command;  // empty: the workers'
  std::int64_t timeout_ms = 1800000;
  bool use_gpu = false;  // those of the workers there
  MSGPACK_DEFINE_MAP(checkpoint, dir, command, timeout_ms, use_gpu)
};
struct ValidationEnded {
  static constexpr MessageType kType = MessageType::ValidationEnded;
  std::uint64_t checkpoint = 0;
  std::string status;       // validated | failed | timeout
  std::string result_json;  // of validated: an object of metrics
  std::string error;        // of the others: why
  std::string output;       // the newest of what it printed, on both streams
  std::int64_t took_ms = 0;
  MSGPACK_DEFINE_MAP(checkpoint, status, result_json, error, output, took_ms)
};
struct AskCheckpoints {  // worker → supervisor → launcher
  static constexpr MessageType kType = MessageType::AskCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;  // this rank's request-th
  bool validated = true;  // not before those that are committed now are validated, or are not to be
  MSGPACK_DEFINE_MAP(rank, request, validated)
};
struct AnsweredCheckpoint {
  std::uint64_t number = 0;
  std::string path;
  std::string status;   // committed | pending_validation | validated | failed | timeout
  std::string metrics;  // one report, as reports.h packs it: with those of the validation
  std::string error;    // of failed and timeout: why
  MSGPACK_DEFINE_MAP(number, path, status, metrics, error)
};
struct ReportedCheckpoints {  // launcher → supervisor → worker
  static constexpr MessageType kType = MessageType::ReportedCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;
  std::vector<AnsweredCheckpoint> checkpoints;  // oldest first; of very many the newest
  MSGPACK_DEFINE_MAP(rank, request, checkpoints)
};
// ---- supervisor ↔ worker

struct WorkerHello {
  static constexpr MessageType kType = MessageType::WorkerHello;
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  std::string build;
  std::int32_t rank = 0;
  std::uint32_t attempt = 0;
  std::int64_t pid = 0;
  std::int32_t standby = -1;  // TRAINRUN_STANDBY of one that waits for a rank; −1: it has `rank`
  MSGPACK_DEFINE_MAP(protocol_min, protocol_max, build, rank, attempt, pid, standby)
};
struct Welcome {
  static constexpr MessageType kType = MessageType::Welcome;
  std::uint32_t protocol = 0;
  std::int32_t world_size = 0, rank = 0, local_rank = 0, local_world_size = 0, node_rank = 0,
               node_count = 0;
  std::uint32_t attempt = 0;
  std::string run_id, run_name, run_dir, staging_dir;
  std::string config_json, metadata_json, datasets_json;
  std::string master_addr;
  std::uint32_t master_port = 0;
  std::int32_t master_listen_fd = -1;  // inherited by rank 0 under this number
  std::string collectives = "auto";
  std::int64_t collective_timeout_ms = 1800000;
  std::string restore_dir;
  std::int64_t restored_epoch = -1;
  std::map<std::string, std::string> env;  // what one that waited lacks of a worker's environment
  MSGPACK_DEFINE_MAP(protocol, world_size, rank, local_rank, local_world_size, node_rank,
                     node_count, attempt, run_id, run_name, run_dir, staging_dir, config_json,
                     metadata_json, datasets_json, master_addr, master_port, master_listen_fd,
                     collectives, collective_timeout_ms, restore_dir, restored_epoch, env)
};
struct CheckpointStaged {  // the folder is complete; it is the supervisor's from now on
  static constexpr MessageType kType = MessageType::CheckpointStaged;
  std::uint64_t index = 0, report_ordinal = 0;
  std::string dir;  // absolute
  std::string metadata_json, metrics_json;
  std::string error;       // writing it failed in the worker
  std::string error_code;  // to_string(Errc), where it is known
  MSGPACK_DEFINE_MAP(index, report_ordinal, dir, metadata_json, metrics_json, error, error_code)
};
struct OnceBegin {
  static constexpr MessageType kType = MessageType::OnceBegin;
  std::string name;
  MSGPACK_DEFINE_MAP(name)
};
struct OnceReply {
  static constexpr MessageType kType = MessageType::OnceReply;
  std::string name, verdict;  // run | done | failed
  std::string error;
  MSGPACK_DEFINE_MAP(name, verdict, error)
};
struct OnceEnd {
  static constexpr MessageType kType = MessageType::OnceEnd;
  std::string name, error;
  MSGPACK_DEFINE_MAP(name, error)
};
struct WorkerError {
  static constexpr MessageType kType = MessageType::WorkerError;
  UserError error;
  MSGPACK_DEFINE_MAP(error)
};
struct WorkerGoodbye {  // the loop ended; everything before this frame is handed over
  static constexpr MessageType kType = MessageType::WorkerGoodbye;
  TRAIN_NO_FIELDS
};
struct GoodbyeAck {
  static constexpr MessageType kType = MessageType::GoodbyeAck;
  TRAIN_NO_FIELDS
};

}  // namespace train

#undef TRAIN_NO_FIELDS
