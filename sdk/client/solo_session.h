// A worker without a supervisor, started by hand or by torchrun. It prints reports as lines on
// stdout, and commits checkpoints in the background into a folder of the working directory, in
// lib/storage's format. Under torchrun it keeps only rank 0's, because nobody gathers the other
// ranks' shards. If train-run has started it alone (num_workers: 0), it has a run's folder: rank
// 0's reports go into metrics.jsonl of its attempt, too, and checkpoints into the run's
// checkpoints. Whoever follows it there (launcher/cluster/run/solo_record.h) finds in solo.jsonl of
// the attempt {"checkpoint": NAME, "report_seq": N} of each that is kept, {"result": …}, and
// {"error": {type, what, stack}} of an exception; and asks it to stop at its next report by a file
// `stop`.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <condition_variable>
#include <memory>
#include <optional>
#include <set>

#include "lib/base/file_descriptor.h"
#include "lib/base/metrics.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "sdk/client/checkpoint_stager.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {

/// Find the newest checkpoint under `checkpoints` that verifies, set it as the one to restore from,
/// and warn of broken ones on stderr.
void find_restorable(const std::string& checkpoints, WorkerInfo& info);

/// Take part in the run's folder that train-run has given us (num_workers: 0): rank 0 makes the
/// folder of a new attempt, so that each start has its own reports. Throws Failure.
void join_run_folder(const std::string& path, WorkerInfo& info);

class SoloSession final : public WorkerSession {
 public:
  SoloSession(WorkerInfo worker, std::string checkpoints);

  void report(const Dict& metrics, const Checkpoint* checkpoint) override;
  std::optional<std::filesystem::path> wait_for_checkpoint() override;
  std::vector<AnsweredCheckpoint> reported_checkpoints(bool validated,
                                                       std::chrono::milliseconds) override;
  bool should_stop() const override;
  bool checkpoint_requested() override { return false; }
  std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                      std::chrono::milliseconds timeout) override;
  void once_per_node(const std::string& name, const std::function<void()>& f) override;
  void set_result(std::string json) override;
  void send_error(const UserError& error) override;  // run() prints it, too
  void flush(std::chrono::milliseconds) override {}
  void finish() override;
  void abandon_in_fork_child() override {}

 private:
  void log(const ReportRecord& report);
  void say(const boost::json::object& saying);
  void stop_at_report(bool has_checkpoint, const Metrics& metrics);
  CheckpointStager::Job stage(const Metrics& metrics, std::uint64_t report_seq,
                              const Checkpoint& checkpoint);
  void open_store();
  void resolve(CheckpointStaged staged);
  Result<std::string> commit(const CheckpointStaged& staged, Metrics metrics);
  void print(const std::string& line) const;

  const std::string stop_file_;  // empty: nobody can ask
  FileDescriptor attempt_lock_;  // the attempt's folder
  PosixFileSystem fs_;
  CheckpointStore store_;
  /// Lets one program at a time commit here; taken by the first checkpoint.
  std::unique_ptr<FileLock> folder_lock_;
  std::mutex report_order_;
  std::uint64_t report_seq_ = 0;
  FileDescriptor log_;  // metrics.jsonl of the attempt, if there is a run's folder
  std::mutex sayings_mutex_;
  FileDescriptor sayings_;  // solo.jsonl, likewise
  bool log_failed_ = false;
  std::uint64_t checkpoint_seq_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Metrics> unresolved_;  // by checkpoint_seq
  std::optional<std::string> newest_kept_;       // its folder
  std::map<std::string, bool> once_done_;        // by name; false: running
  std::map<std::string, std::thread::id> once_runner_;
  std::optional<std::string> result_;
  bool finished_ = false;
  CheckpointStager stager_;  // last: its thread uses all of the above
};

}  // namespace train::sdk
