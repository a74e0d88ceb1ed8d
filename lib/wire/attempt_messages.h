// Messages between the launcher and an attempt's supervisors. traind relays them by the frame's
// attempt. Some of them come from a worker or go to one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/checkpoint_shard.h"
#include "lib/model/job_context.h"
#include "lib/model/worker_end.h"
#include "lib/model/worker_ranks.h"
#include "lib/wire/message_type.h"

namespace train {

struct Prepared {
  static constexpr MessageType kType = MessageType::Prepared;
  std::int32_t node_rank = 0;
  std::uint32_t master_port = 0;  // 0: not asked for
  std::int64_t supervisor_pid = 0;
  std::string spool_dir;
  bool relayed = false;  // it does not see the storage: its checkpoints go by ReadFile
  TRAIN_FIELDS(node_rank, master_port, supervisor_pid, spool_dir, relayed)
};

struct StartWorkers {
  static constexpr MessageType kType = MessageType::StartWorkers;
  JobContext run;
  std::vector<WorkerRanks> workers;  // of this node
  std::vector<std::string> command;
  std::string working_dir;
  std::map<std::string, std::string>
      env;  // the whole environment but what the supervisor adds for each rank
  std::vector<std::string> job_env;  // the names of those that the spec sets
  std::int32_t restart_count = 0, max_restarts = 0;
  double cpus_per_worker = 1;
  std::int32_t standby = 0;  // start so many ahead, without ranks: the attempt has not begun
  TRAIN_FIELDS(run, workers, command, working_dir, env, restart_count, max_restarts,
               cpus_per_worker, standby, job_env)
};

struct StartedWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  TRAIN_FIELDS(rank, pid)
};

struct WorkersStarted {
  static constexpr MessageType kType = MessageType::WorkersStarted;
  std::vector<StartedWorker> workers;
  std::int32_t from_standby = 0;  // of them: processes that had waited
  TRAIN_FIELDS(workers, from_standby)
};

struct StartFailed {  // nothing was left running
  static constexpr MessageType kType = MessageType::StartFailed;
  std::int32_t rank = 0;
  std::string code, message, hint;
  TRAIN_FIELDS(rank, code, message, hint)
};

struct WorkerJoined {  // its SDK said hello
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
  TRAIN_FIELDS(rank, pid, end)
};

struct GroupGone {  // every worker of this node is reaped, its reports and output are sent
  static constexpr MessageType kType = MessageType::GroupGone;
  TRAIN_FIELDS()
};

struct StopWorkers {  // TERM, `grace`, KILL; grace 0: KILL
  static constexpr MessageType kType = MessageType::StopWorkers;
  std::int64_t grace_ms = 0;
  std::string reason;
  TRAIN_FIELDS(grace_ms, reason)
};

struct PauseWorkers {  // in three steps by `report_seq`: PROTOCOL.md, "Stopping gracefully"
  static constexpr MessageType kType = MessageType::PauseWorkers;
  std::string step;              // as lib/model/pause_step.h writes it
  std::uint64_t report_seq = 0;  // advance: the report at which all stop
  std::string reason;
  bool at_checkpoint =
      false;  // pause only at a report with a checkpoint, training goes on till then
  TRAIN_FIELDS(step, report_seq, reason, at_checkpoint)
};

struct WorkerPaused {
  static constexpr MessageType kType = MessageType::WorkerPaused;
  std::int32_t rank = 0;
  std::uint64_t report_seq = 0;      // its last report
  std::uint64_t checkpoint_seq = 0;  // checkpoints it has reported in this attempt
  bool arrived = false;              // at the report of `advance`, its checkpoint made; else: of
                                     // `pause`
  TRAIN_FIELDS(rank, report_seq, checkpoint_seq, arrived)
};

struct ReportBatch {  // worker → supervisor → launcher; reports.h reads `data`
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

struct ShardWritten : StagedShard {  // one rank's is written and synced, or could not be
  static constexpr MessageType kType = MessageType::ShardWritten;
  bool on_node = false;  // on its node's own disk: to be fetched by ReadFile
  TRAIN_FIELDS(rank, checkpoint_seq, report_seq, dir, files, nodes, metadata_json, error, no_space,
               on_node)
};

struct StorageTrouble {  // supervisor → launcher: something is tried again, for people to read
  static constexpr MessageType kType = MessageType::StorageTrouble;
  std::string text;
  TRAIN_FIELDS(text)
};

struct CheckpointOutcome {
  static constexpr MessageType kType = MessageType::CheckpointOutcome;
  std::uint64_t checkpoint_seq = 0;
  std::string path, error;  // one of them
  // Folders below checkpoints/ on a node's own disk that are still needed. Of the folders of
  // `path`'s own kind, no others are.
  std::vector<std::string> keep;
  TRAIN_FIELDS(checkpoint_seq, path, error, keep)
};

struct OutputChunk {
  static constexpr MessageType kType = MessageType::OutputChunk;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;   // 1 stdout, 2 stderr
  std::uint64_t offset = 0;  // of data in the stream
  std::string data;
  bool end = false;
  TRAIN_FIELDS(rank, stream, offset, data, end)
};

struct AckOutput {
  static constexpr MessageType kType = MessageType::AckOutput;
  std::int32_t rank = 0;
  std::uint8_t stream = 1;
  std::uint64_t offset = 0;  // all before it is in the run's folder
  TRAIN_FIELDS(rank, stream, offset)
};

struct CollectiveJoin {  // worker → supervisor → launcher: my part of the sequence-th collective
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

struct CollectiveAnswered : CollectiveResult {  // supervisor → a newer launcher: a result that an
                                                // older one had sent; ranks of other nodes may
                                                // still wait for it
  static constexpr MessageType kType = MessageType::CollectiveAnswered;
  TRAIN_FIELDS(sequence, parts, error)
};

struct WorkerResult {
  static constexpr MessageType kType = MessageType::WorkerResult;
  std::int32_t rank = 0;
  std::string json;
  TRAIN_FIELDS(rank, json)
};

struct ReleaseAttempt {  // the launcher has all it needs: remove the spool and end
  static constexpr MessageType kType = MessageType::ReleaseAttempt;
  TRAIN_FIELDS()
};

struct LivingWorker {
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  bool joined = false;         // its SDK has said hello
  std::uint64_t reported = 0;  // its last report, acknowledged or not; 0: none yet
  TRAIN_FIELDS(rank, pid, joined, reported)
};

struct AttemptSnapshot {  // supervisor → launcher when a launcher (re-)attaches: who lives
  static constexpr MessageType kType = MessageType::AttemptSnapshot;
  std::string phase;  // spawned | prepared | starting | running | stopping | gone
  std::uint32_t master_port = 0;
  std::vector<LivingWorker> alive;
  std::uint64_t resolved_checkpoint =
      0;  // the newest whose CheckpointOutcome has come; 0: none yet
  TRAIN_FIELDS(phase, master_port, alive, resolved_checkpoint)
};

struct ReadFile {  // of a part: launcher → supervisor; of the checkpoint to restore: supervisor →
                   // launcher; of what a node keeps: → launcher → traind, on no attempt's frame
  static constexpr MessageType kType = MessageType::ReadFile;
  std::uint64_t id = 0;      // whoever asks chooses it
  std::string folder, path;  // of a part: "PENDING/PART"; of a kept one: "DATA/PART"; else as
                             // StartWorkers.restore_dir
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;  // at most; an answer has fewer only at the file's end
  TRAIN_FIELDS(id, folder, path, offset, bytes)
};

struct FileBytes {
  static constexpr MessageType kType = MessageType::FileBytes;
  std::uint64_t id = 0, offset = 0;  // of the request
  std::uint64_t size = 0;            // of the whole file
  std::string data;
  std::string error, error_code;  // instead; error_code: to_string(Errc)
  TRAIN_FIELDS(id, offset, size, data, error, error_code)
};

struct KeepShard : CheckpointShard {  // launcher → supervisor: keep a copy of another node's shard
  static constexpr MessageType kType = MessageType::KeepShard;
  std::uint64_t checkpoint_seq = 0;  // of which checkpoint
  TRAIN_FIELDS(rank, checkpoint_seq, dir, files)
};

struct ShardKept {  // it is safe on this node's disk, or cannot be kept
  static constexpr MessageType kType = MessageType::ShardKept;
  std::int32_t rank = 0;
  std::uint64_t checkpoint_seq = 0;
  std::string error, error_code;  // empty: fine
  TRAIN_FIELDS(rank, checkpoint_seq, error, error_code)
};

struct RunValidation {  // of a committed checkpoint; asked again: it goes on, or its end is said
                        // again
  static constexpr MessageType kType = MessageType::RunValidation;
  std::uint64_t checkpoint = 0;      // its number
  std::string dir;                   // its folder
  std::vector<std::string> command;  // empty: the workers'
  std::int64_t timeout_ms = 1800000;
  bool use_gpu = false;  // those of the workers there
  TRAIN_FIELDS(checkpoint, dir, command, timeout_ms, use_gpu)
};

struct ValidationEnded {
  static constexpr MessageType kType = MessageType::ValidationEnded;
  std::uint64_t checkpoint = 0;
  std::string status;       // validated | failed | timeout
  std::string result_json;  // of validated: an object of metrics
  std::string error;        // of the others: why
  std::string output;       // the newest of what it printed, on both streams
  std::int64_t took_ms = 0;
  TRAIN_FIELDS(checkpoint, status, result_json, error, output, took_ms)
};

struct AskCheckpoints {  // worker → supervisor → launcher
  static constexpr MessageType kType = MessageType::AskCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;  // this rank's request-th
  bool validated = true;  // not before those that are committed now are validated, or are not to be
  TRAIN_FIELDS(rank, request, validated)
};

struct AnsweredCheckpoint {
  std::uint64_t number = 0;
  std::string path;
  std::string status;   // committed | pending_validation | validated | failed | timeout
  std::string metrics;  // one report, as reports.h packs it: with those of the validation
  std::string error;    // of failed and timeout: why
  TRAIN_FIELDS(number, path, status, metrics, error)
};

struct ReportedCheckpoints {  // launcher → supervisor → worker
  static constexpr MessageType kType = MessageType::ReportedCheckpoints;
  std::int32_t rank = 0;
  std::uint64_t request = 0;
  std::vector<AnsweredCheckpoint> checkpoints;  // oldest first; of very many the newest
  TRAIN_FIELDS(rank, request, checkpoints)
};

}  // namespace train
