// A run on disk, as its launcher owns it: the folder, the lock, the journal, and where the run
// begins according to them. Calls block.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/links/run_identity.h"
#include "launcher/cluster/run/kept_run.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_controller.h"
#include "launcher/core/run_history.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

struct RunRecordOptions {
  bool unique_name = false;  // the name is a default: if it is taken, it gets a suffix
  /// Take over the run from a launcher that still holds it, and give up workers on nodes that
  /// cluster.nodes no longer names.
  bool force = false;
  /// A traind restarts the run's controller, so requests to stop still hold.
  bool restarted = false;
  bool changed = false;  // the spec has changed: refused while the run's workers may live
  /// The run keeps its workers for another one, and begins with those that have stayed after an
  /// earlier one, if there are such.
  bool keeps_workers = false;
  std::optional<KeptRun> kept = {};
  /// The daemons are new, and those of earlier launchers have ended with these: no worker of theirs
  /// lives.
  bool new_daemons = false;
  std::string build;
  /// Reports progress if it takes long; may be empty.
  std::function<void(const std::string&)> say = {};
};

class RunRecord {
 public:
  /// Create the run's folder, or resume an unfinished run of the same name. AlreadyExists if the
  /// run has finished or another launcher holds it; the message says which.
  static Result<std::unique_ptr<RunRecord>> open(const JobSpec& spec,
                                                 const RunRecordOptions& options);

  /// Write spec.yaml and spec.resolved.yaml, readable by their owner only: they may hold secrets.
  /// Do not sync them, so that workers need not wait.
  Result<Unit> put_specs(const std::string& spec_text, const std::string& resolved_spec);
  Result<Unit> sync_specs();

  /// Return the run's folder on this machine.
  const RunFolder& folder() const { return folder_; }
  /// Return the run's location for users and nodes: the same path, or a URL.
  const std::string& location() const { return remote_ ? remote_->url() : folder_.path(); }
  /// Return the remote part of a run in an object store; otherwise nullptr.
  RemoteRun* remote() { return remote_.get(); }
  const std::string& run_id() const { return run_id_; }
  const std::string& name() const { return name_; }
  /// Return the key that proves to nodes that the run is ours (lib/net/run_owner.h). No log
  /// contains it, and no file but its own.
  const std::string& owner_key() const { return owner_key_; }
  Generation generation() const { return generation_; }
  /// Return what others are told about the run.
  RunIdentity identity() const {
    return {.run_id = run_id_,
            .name = name_,
            .generation = generation_,
            .location = location(),
            .storage_marker = storage_marker_,
            .code = code_,
            .keeps_workers = start_.keeps_workers,
            .apart = apart_};
  }
  /// Return the folder of the code that nodes get; empty: none.
  const std::string& code() const { return code_; }
  /// Nodes get the code in this folder from now on.
  void set_code(std::string folder) { code_ = std::move(folder); }
  /// Return the generation of the launcher that began the attempt: the attempt's checkpoints are
  /// named after it.
  Generation attempt_generation(Attempt attempt) const;
  /// Return the attempts of earlier launchers.
  const std::vector<PastAttempt>& past() const { return past_; }
  /// Return what the journal says of ingest workers so far.
  IngestHistory ingest() const { return history_ ? history_->ingest() : IngestHistory(); }
  /// Return which setups the journal knows to have succeeded.
  SetupHistory setup() const { return history_ ? history_->setup() : SetupHistory(); }
  /// Return the checkpoints that earlier launchers have committed according to the journal, removed
  /// ones too, and what each was made of.
  std::map<CheckpointNumber, PendingCheckpoint> committed_before() const;
  bool resumed() const { return resumed_; }
  /// Return the nodes to begin with, by NodeId: cluster.nodes, and where nodes are found, those of
  /// a living attempt first.
  const std::vector<std::string>& nodes() const { return nodes_; }
  /// Return where the controller begins, and what to warn about (checkpoints that were skipped).
  const RunStart& start() const { return start_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  FileSystem& files() { return files_; }
  Journal& journal() { return *journal_; }
  /// Let others see that nobody runs it any more.
  void unlock() { lock_.reset(); }
  /// Check that the run is still ours. Fenced if another launcher has taken it over.
  Result<Unit> check_owner() const;
  CheckpointStore& checkpoints() { return *store_; }
  /// Return the file system that shows the files of checkpoints.
  FileSystem& checkpoint_files() {
    return remote_ ? static_cast<FileSystem&>(remote_->files()) : files_;
  }

 private:
  explicit RunRecord(RunFolder folder) : folder_(std::move(folder)) {}
  Result<Unit> check_unfinished();
  static Result<std::unique_ptr<RunRecord>> make_folder(const JobSpec& spec, bool unique_name);
  static Result<std::unique_ptr<RunRecord>> make_remote(const JobSpec& spec, bool unique_name);
  Result<Unit> take_remote(const RunRecordOptions& options);
  Result<Unit> take_owner_key(const std::optional<KeptRun>& kept);
  Result<Unit> take_ownership(const JobSpec& spec, const RunRecordOptions& options);
  Result<Unit> read_start(const JobSpec& spec);
  Result<Unit> leave_marker();
  Result<Unit> read_history(const JobSpec& spec, const RunRecordOptions& options);
  void read_time(const RunHistory& history);
  void begin_with(const KeptRun& kept);
  std::int64_t asked_ms() const;
  void read_code();
  Result<Unit> check_living(const RunRecordOptions& options, const RunHistory& history);
  Result<std::vector<PendingCheckpoint>> pending_of_living();
  Result<Unit> read_given_checkpoint(const std::string& location);
  void find_resolved();
  Result<Unit> note_found(const Manifest& manifest);
  Result<Unit> read_older(const std::string& given);
  Result<Manifest> read_given_manifest(const std::string& location);

  PosixFileSystem files_;
  RunFolder folder_;
  std::unique_ptr<RemoteRun> remote_;
  std::string name_, run_id_, owner_key_, storage_marker_;
  std::string apart_;  // RunIdentity::apart
  std::string code_;
  std::string left_behind_;  // which attempt was given up although its workers may run
  bool resumed_ = false;
  std::optional<RunLock> lock_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<CheckpointStore> store_;
  Generation generation_;
  RunStart start_;
  std::optional<RunHistory> history_;
  std::vector<std::string> nodes_;
  std::vector<PastAttempt> past_;
  std::vector<std::string> warnings_;
};

/// Where a resumed run would continue.
struct ResumePoint {
  std::optional<Attempt> living = {};  // the attempt whose workers are looked for first
  Attempt next;
  std::string checkpoint;  // its name; "": start from the beginning
  std::vector<std::string> warnings;
};
/// Return where `train-run resume` would continue, or an Error that says why it would not. Changes
/// nothing.
Result<ResumePoint> resume_point(const JobSpec& spec, const RunFolder& folder);

}  // namespace train
