// Everything the supervisor keeps for one worker: its output on the way to the launcher, its
// reports until they are on disk, its checkpoints until they are resolved, and what is known of its
// end. State only; Supervisor, OutputPump, WorkerMessages and WorkerRunner change it.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/supervisor/core/worker_group.h"
#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/limits/memory_account.h"
#include "daemon/supervisor/output/output_spool.h"
#include "daemon/supervisor/processes/standby_processes.h"
#include "daemon/supervisor/workers/crash_reader.h"
#include "lib/base/file_descriptor.h"
#include "lib/model/user_error.h"
#include "lib/progress/progress_memory.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {

/// Reports that the launcher has not acknowledged. Our SDK blocks at 8 MiB of them.
class UnackedReports {
 public:
  void add(std::uint64_t last_report_seq, Frame frame) {
    last_ = last_report_seq;
    bytes_ += frame.payload.size();
    frames_.emplace_back(last_report_seq, std::move(frame));
  }
  void acknowledge(std::uint64_t report_seq) {
    while (!frames_.empty() && frames_.front().first <= report_seq) {
      bytes_ -= frames_.front().second.payload.size();
      frames_.pop_front();
    }
  }
  std::size_t bytes() const { return bytes_; }
  const std::deque<std::pair<std::uint64_t, Frame>>& frames() const { return frames_; }
  std::uint64_t last_report_seq() const { return last_; }

 private:
  std::deque<std::pair<std::uint64_t, Frame>> frames_;
  std::uint64_t last_ = 0;
  std::size_t bytes_ = 0;
};

/// One of a worker's two output streams.
struct OutputStream {
  OutputSpool spool;
  std::uint8_t number = 1;  // 1 stdout, 2 stderr
  std::uint64_t sent = 0, acked = 0;
  bool ended = false, end_sent = false;
  asio::posix::stream_descriptor* pipe = nullptr;  // while it is being read
  bool stays = false;                              // its writer does: read no further than now
  FileDescriptor rest = FileDescriptor();          // the pipe, of a writer that stays
};

struct WorkerSlot {
  WorkerRanks ranks;
  std::optional<StandbyProcess> standby;  // the standby process that became this worker
  std::int64_t pid = 0;
  std::int64_t stayed = 0;  // in place of `pid`: the process that waits for another run
  pid_t program = 0;  // the process that uses the SDK: `pid`, or one that it started; 0: none does
  std::optional<Cgroup> cgroup;
  MemoryAccount memory;
  std::optional<MemoryLimit> out_of_memory;  // the memory limit that killed it
  std::uint64_t pids_limit_hit = 0;          // 0: not hit
  std::vector<OutputStream> streams;         // stdout, stderr
  LastLines last_lines;                      // of both
  UnackedReports reports;
  std::map<std::uint64_t, Frame> unresolved_shards;  // by checkpoint_seq, until CheckpointOutcome
  std::map<std::uint64_t, Frame> unanswered_collectives;  // by sequence
  std::map<std::uint64_t, Frame> unanswered_asks;         // of AskCheckpoints, by request
  std::size_t kept_bytes = 0;       // of frames that are kept until the attempt ends
  std::set<std::uint64_t> staging;  // by checkpoint_seq, while they are being stored
  std::optional<UserError> error;   // from its SDK or error_file
  std::string error_file;           // to which Python's @record writes
  bool connected = false;
  std::optional<ProgressMemory> progress;  // the page of its newest program, if that uses the SDK
  bool numbering_begun =
      false;  // a program of it has reported or called: the next would count anew
  bool said_goodbye = false;
  bool knows_checkpoint_requests = false;  // its SDK does
  bool knows_memory_profiles = false;      // likewise
  bool knows_ingest_rosters = false;       // likewise
  bool knows_calls = false;                // likewise
  bool told_to_stop = false;               // to leave its loop, before it had left
  std::chrono::system_clock::time_point reaped_at{};
  std::uint64_t reaped_ns = 0;  // of progress_now()
  std::optional<TellExited> exit;
  bool exit_sent = false;
  bool unwinding = false;  // a stack is being made of its crash
  CrashStack crash;

  /// Return a variable of the process's environment that no other worker here has.
  std::string mark() const {
    return standby ? standby->mark : "RANK=" + std::to_string(ranks.rank);
  }
  /// Return the name of the process's cgroup.
  std::string group() const;
  bool output_ended() const {
    for (const OutputStream& stream : streams) {
      if (!stream.ended) return false;
    }
    return true;
  }
};

/// Record that the worker is passed this step of a pause.
void pause_passed_on(WorkerSlot& slot, const PauseWorkers& message);

/// Return the message about a worker's end.
WorkerExited exit_message(const WorkerSlot& slot);

/// Return what the worker left in TORCHELASTIC_ERROR_FILE (in torchelastic's format), or nothing if
/// there is no readable file.
std::optional<UserError> read_error_file(const std::string& path);

}  // namespace train
