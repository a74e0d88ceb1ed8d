// Messages between the launcher and an attempt's supervisors. traind relays them by the attempt in
// the frame. Some of them come from a worker or go to one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/backend_profile.h"
#include "lib/model/checkpoint_shard.h"
#include "lib/model/data_operator.h"
#include "lib/model/ingest_roster.h"
#include "lib/model/job_context.h"
#include "lib/model/node_digests.h"
#include "lib/model/rank_sample.h"
#include "lib/model/resources.h"
#include "lib/model/worker_end.h"
#include "lib/model/worker_ranks.h"
#include "lib/wire/message_type.h"

namespace train {

struct Prepared {
  static constexpr MessageType kType = MessageType::Prepared;
  std::int32_t node_rank = 0;
  std::uint32_t master_port = 0;  // 0: not requested
  std::int64_t supervisor_pid = 0;
  std::string spool_dir;
  bool relayed = false;  // it does not see the storage: ReadFile transfers its checkpoints
  std::vector<std::string> notes = {};    // for the user, a line each
  NodeDigests digests = {};               // if they were wanted
  std::vector<std::uint32_t> ports = {};  // ports_per_worker of each local rank, in its order
  TRAIN_FIELDS(node_rank, master_port, supervisor_pid, spool_dir, relayed, notes, digests, ports)
};

// supervisor → launcher: the order PrepareAttempt::setup has been followed. Said again to each
// launcher that attaches.
struct NodeSetupEnded {
  static constexpr MessageType kType = MessageType::NodeSetupEnded;
  bool ok = false;
  std::string life;    // of the node: another one once its machine or container has started anew
  std::string error;   // unless ok: why
  std::string output;  // the newest part of what it printed, on both streams
  std::int64_t took_ms = 0;
  TRAIN_FIELDS(ok, life, error, output, took_ms)
  bool operator==(const NodeSetupEnded&) const = default;
};

/// What workers of a role beside the one that trains run.
struct RoleProgram {
  std::string name;
  std::vector<std::string> command;
  std::map<std::string, std::string> env = {};  // what it sets beside StartWorkers::env
  double cpus_per_worker = 1;
  bool operator==(const RoleProgram&) const = default;
  TRAIN_FIELDS(name, command, env, cpus_per_worker)
};

struct StartWorkers {
  static constexpr MessageType kType = MessageType::StartWorkers;
  JobContext run;
  std::vector<WorkerRanks> workers;  // of this node
  std::vector<std::string> command;
  std::string working_dir;
  // The whole environment, except what the supervisor adds for each rank.
  std::map<std::string, std::string> env;
  std::vector<std::string> job_env;  // names of the variables that the spec sets
  std::int32_t restart_count = 0, max_restarts = 0;
  double cpus_per_worker = 1;
  // Start this many processes in advance, without ranks; the attempt has not begun.
  std::int32_t standby = 0;
  BackendProfile backend = {};
  std::vector<std::string> peers = {};        // host:port of every held port, by rank
  std::vector<std::int32_t> node_sizes = {};  // workers of each node, by node rank
  std::string role = "default";               // that trains: all the above is of its workers
  std::vector<RoleProgram> other_roles = {};  // WorkerRanks::role 1, 2, …
  TRAIN_FIELDS(run, workers, command, working_dir, env, restart_count, max_restarts,
               cpus_per_worker, standby, job_env, backend, peers, node_sizes, role, other_roles)
};

struct StartedWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  TRAIN_FIELDS(rank, pid)
};

struct WorkersStarted {
  static constexpr MessageType kType = MessageType::WorkersStarted;
  std::vector<StartedWorker> workers;
  std::int32_t from_standby = 0;  // how many of them had waited on standby
  TRAIN_FIELDS(workers, from_standby)
};

struct StartFailed {  // nothing is left running
  static constexpr MessageType kType = MessageType::StartFailed;
  std::int32_t rank = 0;
  std::string code, message, hint;
  bool busy = false;  // traind has no room for it now, and there may be some later
  TRAIN_FIELDS(rank, code, message, hint, busy)
};

struct WorkerJoined {  // its SDK has said hello
  static constexpr MessageType kType = MessageType::WorkerJoined;
  std::int32_t rank = 0;
  std::string build;
  TRAIN_FIELDS(rank, build)
};

struct WorkerExited {
  static constexpr MessageType kType = MessageType::WorkerExited;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  WorkerEnd end;
  WorkerProgress progress = {};  // its last
  std::int64_t ended_us = 0;     // how long ago it ended, when this was sent
  TRAIN_FIELDS(rank, pid, end, progress, ended_us)
};

// Every worker of this node has ended, and its reports and output have been sent.
struct GroupGone {
  static constexpr MessageType kType = MessageType::GroupGone;
  bool stay = false;  // all their processes wait for the next run; else they are reaped
  TRAIN_FIELDS(stay)
};

struct StopWorkers {  // SIGTERM, then SIGKILL after grace_ms; 0: SIGKILL immediately
  static constexpr MessageType kType = MessageType::StopWorkers;
  std::int64_t grace_ms = 0;
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

struct PauseWorkers {  // in steps: PROTOCOL.md, "Stopping gracefully"
  static constexpr MessageType kType = MessageType::PauseWorkers;
  std::string step;              // see lib/model/pause_step.h
  std::uint64_t report_seq = 0;  // advance, checkpoint: the report at which all stop
  std::string reason;
  // Pause only at a report with a checkpoint; until then training continues.
  bool at_checkpoint = false;
  TRAIN_FIELDS(step, report_seq, reason, at_checkpoint)
};

struct WorkerPaused {
  static constexpr MessageType kType = MessageType::WorkerPaused;
  std::int32_t rank = 0;
  std::uint64_t report_seq = 0;      // its last report
  std::uint64_t checkpoint_seq = 0;  // number of checkpoints that it has reported in this attempt
  bool arrived = false;              // at the report of `advance`, not at that of `pause`
  /// It can make a checkpoint of this report, and waits for `checkpoint` before it does.
  bool checkpoint_pending = false;
  TRAIN_FIELDS(rank, report_seq, checkpoint_seq, arrived, checkpoint_pending)
  bool operator==(const WorkerPaused&) const = default;
};

// launcher → supervisor → those workers that know it (WorkerHello::checkpoint_requests):
// PROTOCOL.md, "A checkpoint now"
struct RequestCheckpoint {
  static constexpr MessageType kType = MessageType::RequestCheckpoint;
  std::uint64_t request = 0;               // its number in the attempt, from 1
  std::string step;                        // see lib/model/checkpoint_order.h
  std::uint64_t report_seq = 0, call = 0;  // make: one of them is set
  TRAIN_FIELDS(request, step, report_seq, call)
  bool operator==(const RequestCheckpoint&) const = default;
};

// worker → supervisor → launcher, or from the supervisor for a worker that cannot be asked
struct CheckpointPosition {
  static constexpr MessageType kType = MessageType::CheckpointPosition;
  std::int32_t rank = 0;
  std::uint64_t request = 0;
  std::uint64_t reports = 0, calls = 0;  // made so far; the next one waits
  bool has_function = false;             // on_stop
  std::string error;                     // why the rank cannot make a checkpoint; empty: it can
  TRAIN_FIELDS(rank, request, reports, calls, has_function, error)
};

struct ReportBatch {  // worker → supervisor → launcher; reports.h defines `data`
  static constexpr MessageType kType = MessageType::ReportBatch;
  std::int32_t rank = 0;
  std::uint64_t first_report_seq = 0;
  std::uint32_t count = 0;
  std::string data;
  TRAIN_FIELDS(rank, first_report_seq, count, data)
};

struct ReportAck {
  std::int32_t rank = 0;
  std::uint64_t report_seq = 0;  // this one and all before it are on disk
  TRAIN_FIELDS(rank, report_seq)
};

struct AckReports {
  static constexpr MessageType kType = MessageType::AckReports;
  std::vector<ReportAck> acks;
  TRAIN_FIELDS(acks)
};

struct ShardWritten : StagedShard {  // one rank's shard is written and synced, or could not be
  static constexpr MessageType kType = MessageType::ShardWritten;
  bool on_node = false;  // it is on its node's own disk, to be fetched with ReadFile
  TRAIN_FIELDS(rank, checkpoint_seq, report_seq, dir, files, nodes, metadata_json, error, no_space,
               on_node, request)
};

// supervisor → launcher, each second while it is attached: newer samples replace older ones
struct WorkerSamples {
  static constexpr MessageType kType = MessageType::WorkerSamples;
  std::vector<RankSample> ranks = {};
  std::int64_t taken_us = 0;  // when, by the node's CLOCK_MONOTONIC: rates need the time between
  TRAIN_FIELDS(ranks, taken_us)
};

// supervisor → launcher, as WorkerSamples
struct DataSamples {
  static constexpr MessageType kType = MessageType::DataSamples;
  std::vector<RankData> ranks = {};  // those that have opened datasets
  std::int64_t taken_us = 0;
  TRAIN_FIELDS(ranks, taken_us)
};

struct TakeStacks {  // launcher → supervisor
  static constexpr MessageType kType = MessageType::TakeStacks;
  std::uint64_t request = 0;             // chosen by the launcher; the answer has it
  std::vector<std::int32_t> ranks = {};  // of this node; empty: all
  TRAIN_FIELDS(request, ranks)
};

struct WorkerStacks {
  std::int32_t rank = 0;
  std::string stacks;  // of its program, as lib/stacks/stacks_codec encodes them
  TRAIN_FIELDS(rank, stacks)
};

struct StacksTaken {  // in as many messages as are needed
  static constexpr MessageType kType = MessageType::StacksTaken;
  std::uint64_t request = 0;
  std::vector<WorkerStacks> workers = {};
  bool last = false;       // nothing more comes for this request
  std::string error = {};  // why there are none
  TRAIN_FIELDS(request, workers, last, error)
};

// launcher → supervisor → those workers that know it (WorkerHello::calls): call a function that the
// program serves. With a command, the supervisor runs that beside each of the workers instead. Sent
// once: a call that is lost with a link has no answer.
struct CallWorkers {
  static constexpr MessageType kType = MessageType::CallWorkers;
  std::uint64_t request = 0;             // chosen by the launcher; the answers have it
  std::vector<std::int32_t> ranks = {};  // of this node; empty: all
  std::string name, argument;            // a JSON value, at most kCallValueBytesMax
  std::vector<std::string> command = {};
  std::uint32_t within_ms = 0;  // then the command is killed
  TRAIN_FIELDS(request, ranks, name, argument, command, within_ms)
};

// worker → supervisor → launcher, or from the supervisor for a worker that cannot be called
struct WorkerAnswered {
  static constexpr MessageType kType = MessageType::WorkerAnswered;
  std::int32_t rank = 0;
  std::uint64_t request = 0;
  std::string result = {};  // a JSON value, at most kCallValueBytesMax
  std::string error = {};   // why there is none; empty: there is one
  std::string kind = {};    // of the error: see lib/model/worker_call.h
  TRAIN_FIELDS(rank, request, result, error, kind)
};

struct TakeProfile {  // launcher → supervisor
  static constexpr MessageType kType = MessageType::TakeProfile;
  std::uint64_t request = 0;  // chosen by the launcher; the answer has it
  std::int32_t rank = 0;
  std::string kind = {};  // cpu | wall | memory
  std::uint32_t time_ms = 0;
  TRAIN_FIELDS(request, rank, kind, time_ms)
};

struct ProfileTaken {  // in as many messages as are needed
  static constexpr MessageType kType = MessageType::ProfileTaken;
  std::uint64_t request = 0;
  std::string data = {};   // the next piece of the profile, as lib/profile/profile_codec encodes it
  bool last = false;       // nothing more comes for this request
  std::string error = {};  // why there is none
  TRAIN_FIELDS(request, data, last, error)
};

// supervisor → launcher: a line for people about trouble, such as repeated requests
struct StorageTrouble {
  static constexpr MessageType kType = MessageType::StorageTrouble;
  std::string text;
  TRAIN_FIELDS(text)
};

struct CheckpointOutcome {
  static constexpr MessageType kType = MessageType::CheckpointOutcome;
  std::uint64_t checkpoint_seq = 0;
  std::string path, error;  // exactly one of them is set
  // The folders below checkpoints/ on a node's own disk that are still needed. The node may remove
  // its other folders of old checkpoints.
  std::vector<std::string> keep;
  TRAIN_FIELDS(checkpoint_seq, path, error, keep)
};

struct OutputChunk {
  static constexpr MessageType kType = MessageType::OutputChunk;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;   // 1 stdout, 2 stderr
  std::uint64_t offset = 0;  // where `data` begins in the stream
  std::string data;
  bool end = false;
  TRAIN_FIELDS(rank, stream, offset, data, end)
};

struct AckOutput {
  static constexpr MessageType kType = MessageType::AckOutput;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;
  std::uint64_t offset = 0;  // everything before it is in the run's folder
  TRAIN_FIELDS(rank, stream, offset)
};

// worker → supervisor → launcher: this rank's part of the sequence-th collective
struct CollectiveJoin {
  static constexpr MessageType kType = MessageType::CollectiveJoin;
  std::int32_t rank = 0;
  std::uint64_t sequence = 0;
  std::string name, data;
  TRAIN_FIELDS(rank, sequence, name, data)
};

struct CollectiveResult {  // launcher → supervisors → workers
  static constexpr MessageType kType = MessageType::CollectiveResult;
  std::uint64_t sequence = 0;
  std::vector<std::string> parts;  // by rank
  std::string error;
  TRAIN_FIELDS(sequence, parts, error)
};

// supervisor → newer launcher: a result that an older launcher sent; ranks on other nodes may still
// wait for it
struct CollectiveAnswered : CollectiveResult {
  static constexpr MessageType kType = MessageType::CollectiveAnswered;
  TRAIN_FIELDS(sequence, parts, error)
};

struct WorkerResult {
  static constexpr MessageType kType = MessageType::WorkerResult;
  std::int32_t rank = 0;
  std::string json;
  TRAIN_FIELDS(rank, json)
};

struct ReleaseAttempt {  // the launcher has everything it needs: remove the spool and end
  static constexpr MessageType kType = MessageType::ReleaseAttempt;
  bool keep_workers = false;  // do not end, if all their processes wait for the next run
  TRAIN_FIELDS(keep_workers)
};

struct LivingWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  bool joined = false;         // its SDK has said hello
  std::uint64_t reported = 0;  // its last report, acknowledged or not; 0: none
  TRAIN_FIELDS(rank, pid, joined, reported)
};

// supervisor → launcher, when a launcher (re-)attaches: which workers live
struct AttemptSnapshot {
  static constexpr MessageType kType = MessageType::AttemptSnapshot;
  std::string phase;  // spawned | prepared | starting | running | stopping | gone
  std::uint32_t master_port = 0;
  std::vector<LivingWorker> alive;
  // The newest checkpoint whose CheckpointOutcome has arrived; 0: none.
  std::uint64_t resolved_checkpoint = 0;
  RequestCheckpoint checkpoint_request = {};  // the newest; request 0: none
  std::vector<IngestPlace> ingest = {};       // where ingest workers were ordered, and not stopped
  std::uint64_t roster_version = 0;           // of the newest IngestRoster
  std::uint32_t kept = 0;  // processes of an earlier run that wait for this attempt's workers
  TRAIN_FIELDS(phase, master_port, alive, resolved_checkpoint, checkpoint_request, ingest,
               roster_version, kept)
};

// Requests a piece of a file: of a shard, launcher → supervisor; of the checkpoint to restore,
// supervisor → launcher; of a shard that a node keeps, supervisor → launcher → traind, in a frame
// without an attempt.
struct ReadFile {
  static constexpr MessageType kType = MessageType::ReadFile;
  std::uint64_t id = 0;  // chosen by the sender
  // `folder` of a shard is "PENDING/SHARD", of a kept one "DATA/SHARD"; else as in
  // JobContext::restore_dir.
  std::string folder, path;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // at most; fewer only at the file's end
  TRAIN_FIELDS(id, folder, path, offset, bytes)
};

struct FileBytes {
  static constexpr MessageType kType = MessageType::FileBytes;
  std::uint64_t id = 0, offset = 0;  // of the request
  std::uint64_t size = 0;            // of the whole file
  std::string data;
  std::string error, error_code;  // if it failed; error_code: to_string(Errc)
  TRAIN_FIELDS(id, offset, size, data, error, error_code)
};

struct KeepShard : CheckpointShard {  // launcher → supervisor: keep a copy of another node's shard
  static constexpr MessageType kType = MessageType::KeepShard;
  std::uint64_t checkpoint_seq = 0;  // the checkpoint that the shard belongs to
  TRAIN_FIELDS(rank, checkpoint_seq, dir, files)
};

struct ShardKept {  // the copy is safe on this node's disk, or cannot be kept
  static constexpr MessageType kType = MessageType::ShardKept;
  std::int32_t rank = 0;
  std::uint64_t checkpoint_seq = 0;
  std::string error, error_code;  // empty: no error
  TRAIN_FIELDS(rank, checkpoint_seq, error, error_code)
};

// Validate a committed checkpoint. If this is repeated, the validation continues, or its end is
// reported again.
struct RunValidation {
  static constexpr MessageType kType = MessageType::RunValidation;
  std::uint64_t checkpoint = 0;      // its number
  std::string dir;                   // its folder
  std::vector<std::string> command;  // empty: the workers' command
  std::int64_t timeout_ms = 1800000;
  bool use_gpu = false;  // the GPUs of the workers there
  TRAIN_FIELDS(checkpoint, dir, command, timeout_ms, use_gpu)
};

struct ValidationEnded {
  static constexpr MessageType kType = MessageType::ValidationEnded;
  std::uint64_t checkpoint = 0;
  std::string status;       // validated | failed | timeout
  std::string result_json;  // if validated: an object of metrics
  std::string error;        // otherwise: the reason
  std::string output;       // the newest part of what it printed, on both streams
  std::int64_t took_ms = 0;
  TRAIN_FIELDS(checkpoint, status, result_json, error, output, took_ms)
};

struct AskCheckpoints {  // worker → supervisor → launcher
  static constexpr MessageType kType = MessageType::AskCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;  // counts this rank's requests
  // Answer only once each checkpoint that is committed now has been validated or will not be.
  bool validated = true;
  TRAIN_FIELDS(rank, request, validated)
};

struct AnsweredCheckpoint {
  std::uint64_t number = 0;
  std::string path;
  std::string status;   // committed | pending_validation | validated | failed | timeout
  std::string metrics;  // one report, as packed by reports.h, including the validation's metrics
  std::string error;    // if failed or timeout: the reason
  TRAIN_FIELDS(number, path, status, metrics, error)
};

struct ReportedCheckpoints {  // launcher → supervisor → worker
  static constexpr MessageType kType = MessageType::ReportedCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;
  // Oldest first; if there are too many, only the newest.
  std::vector<AnsweredCheckpoint> checkpoints;
  TRAIN_FIELDS(rank, request, checkpoints)
};

// launcher → supervisor: keep an ingest worker running in this place. Ordered again, it changes
// nothing.
struct StartIngest {
  static constexpr MessageType kType = MessageType::StartIngest;
  std::string dataset;
  std::int32_t slot = 0;            // IngestPlace::slot
  Resources claim;                  // part of PrepareAttempt::ingest
  std::int64_t timeout_ms = 30000;  // a process that is silent for so long is replaced
  bool flight = false;              // it is to serve ranks of other nodes, too
  TRAIN_FIELDS(dataset, slot, claim, timeout_ms, flight)
  bool operator==(const StartIngest&) const = default;
};

// launcher → supervisor: keep none in this place any more. supervisor → ingest worker: end.
struct StopIngest {
  static constexpr MessageType kType = MessageType::StopIngest;
  std::string dataset;
  std::int32_t slot = 0;
  TRAIN_FIELDS(dataset, slot)
  bool operator==(const StopIngest&) const = default;
};

// ingest worker → supervisor → launcher: it serves. The supervisor sets all fields but `flight`.
struct IngestUp {
  static constexpr MessageType kType = MessageType::IngestUp;
  std::string name, dataset;
  std::int32_t slot = 0;
  std::string socket, flight;  // as in IngestEndpoint
  TRAIN_FIELDS(name, dataset, slot, socket, flight)
  bool operator==(const IngestUp&) const = default;
};

// ingest worker → supervisor → launcher, each second: what it has done so far. The supervisor sets
// name, dataset and slot.
struct IngestLoad {
  static constexpr MessageType kType = MessageType::IngestLoad;
  std::string name, dataset;
  std::int32_t slot = 0;
  std::int64_t rows = 0, bytes = 0;  // handed over
  std::int64_t cpu_us = 0;           // used by the process
  TRAIN_FIELDS(name, dataset, slot, rows, bytes, cpu_us)
  bool operator==(const IngestLoad&) const = default;
};

// supervisor → launcher: the process of a place has ended, or could not be started. A launcher that
// attaches later learns it from AttemptSnapshot.
struct IngestEnded {
  static constexpr MessageType kType = MessageType::IngestEnded;
  std::string name, dataset;
  std::int32_t slot = 0;
  bool stopped = false;                      // it was told to end, and no other follows
  std::string why;                           // "it was killed by SIGKILL"
  std::uint32_t deaths = 0;                  // in this place, with this one
  std::int64_t again_ms = 0;                 // when the next one is started; of `stopped`: never
  bool often = false;                        // so often that the next one waits longer
  std::vector<std::string> last_lines = {};  // of its output
  std::string output = {};                   // the newest of it
  TRAIN_FIELDS(name, dataset, slot, stopped, why, deaths, again_ms, often, last_lines, output)
  bool operator==(const IngestEnded&) const = default;
};

// launcher → supervisors → ranks that know it (WorkerHello::ingest_rosters). A supervisor sends the
// newest to ranks that connect later.
struct TellIngestRoster : IngestRoster {
  static constexpr MessageType kType = MessageType::IngestRoster;
  TRAIN_FIELDS(version, endpoints)
};

}  // namespace train
