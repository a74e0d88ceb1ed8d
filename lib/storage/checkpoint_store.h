// The committed checkpoints of one run: <run>/checkpoints. The launcher commits the shards that
// supervisors wrote (checkpoint_writer.h), and lists, verifies, restores and removes checkpoints;
// other programs only read. Which checkpoints to keep is decided in retention.h, not here. All
// calls block. Only the run's owner writes (run_lock.h), from one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/manifest.h"
#include "lib/storage/validation_record.h"

namespace train {

struct CommitRequest {
  PendingCheckpoint pending = {};
  CheckpointNumber number = {};
  int world_size = 1;
  std::vector<CheckpointShard> shards = {};  // of every rank, in any order
  std::string created = {};                  // RFC 3339
  Metrics metrics = {};                      // rank 0's
  boost::json::object metadata = {};
};

struct ListedCheckpoint {
  CheckpointNumber number;
  std::string path;  // its folder
  // The structurally checked manifest (FORMAT.md section 3), or why the checkpoint cannot be used.
  Result<Manifest> manifest;
  // Nothing if it was not validated, or if the record of that cannot be read.
  std::optional<ValidationRecord> validation = {};

  /// Return the metrics by which the checkpoint is judged: the reported ones, overlaid by those of
  /// the validation.
  Metrics metrics() const { return merge_metrics(manifest->metrics, validation); }
};

struct Restorable {
  CheckpointNumber number;
  std::string path;
  Manifest manifest;
};

struct RestoreChoice {
  std::optional<Restorable> checkpoint;  // the newest that verifies; none: start afresh
  std::vector<std::string> warnings;     // for each newer one: why it was skipped
};

/// Merge the shards of all ranks into the files of one checkpoint. Pure. Files of the same path and
/// the same bytes are merged into one. Different bytes are an error that names the file and both
/// ranks; a missing or repeated rank is an error too.
Result<std::vector<ManifestFile>> merge_shards(const std::vector<CheckpointShard>& shards,
                                               int world_size);

/// Return the manifest that a commit will write. Pure; the errors of merge_shards.
Result<Manifest> manifest_of(const CommitRequest& request);

/// Called after each piece with the number of bytes read; its error ends the work.
using OnBytes = std::function<Result<Unit>(std::uint64_t)>;

/// Check the sizes of all files that are here against the manifest. Corrupt names the file, and the
/// expected and found sizes.
Result<Unit> check_structure(FileSystem& fs, const std::string& folder, const Manifest& manifest);
/// Return Corrupt unless `found` is the digest of `file`.
Result<Unit> check_digest(const std::string& folder, const ManifestFile& file, const Digest& found);
/// Check the sizes and digests of all files that are here, several files at once: several threads
/// call `on_bytes`. Reads every byte, unless it finds a file that is not whole.
Result<Unit> verify_files(FileSystem& fs, const std::string& folder, const Manifest& manifest,
                          const OnBytes& on_bytes = {});
/// Return the manifest of any folder, of this run or another, once all files are found to have the
/// sizes it says.
Result<Manifest> read_checkpoint(FileSystem& fs, const std::string& folder);
/// Verify the manifest and files of any folder, of this run or another (resume_from_checkpoint).
Result<Manifest> verify_checkpoint(FileSystem& fs, const std::string& folder);
/// Return Unavailable, naming the nodes, if files are on nodes' disks instead
/// (ManifestFile::nodes).
Result<Unit> check_all_here(const std::string& folder, const Manifest& manifest);
/// Record in the manifest that all files have come here from nodes and are safe on disk. For the
/// owner.
Result<Unit> keep_here(FileSystem& fs, const std::string& folder);
/// Return whether the folder is gone. An owner that removes one takes its name away first.
bool is_gone(FileSystem& fs, const std::string& folder);

/// A CheckpointStore reads through any FileSystem. This class creates and removes checkpoints as
/// folders on a file system; object_checkpoint_store.h does so in an object store.
class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}
  virtual ~CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Make the folder, finish removals that were cut short, and discard pending checkpoints of
  /// generations before `current`, except `keep` (those of an attempt that outlived its launcher).
  /// Return the names of what was discarded. For the owner only.
  virtual Result<std::vector<std::string>> open(Generation current,
                                                const std::vector<PendingCheckpoint>& keep = {});
  /// Return what was handed over and is not committed.
  virtual Result<std::vector<PendingCheckpoint>> pending() const;

  /// Make the shards one committed checkpoint. When it returns, the checkpoint survives a power
  /// cut. `may_commit` is asked last, just before the name appears: it is the fence against an
  /// owner that was replaced (RunLock::check). On an error nothing was acknowledged and no earlier
  /// checkpoint is touched; then discard() the pending one.
  virtual Result<Manifest> commit(const CommitRequest& request,
                                  const std::function<Result<Unit>()>& may_commit);

  /// Return all committed checkpoints, oldest first, including those that cannot be used. A
  /// checkpoint that the owner removes meanwhile is left out. The list is empty if there is no
  /// folder.
  Result<std::vector<ListedCheckpoint>> list() const;
  /// Return one checkpoint of the list; NotFound if none has this number.
  Result<ListedCheckpoint> find(CheckpointNumber number) const;
  /// Return the newest checkpoint that is structurally whole.
  Result<std::optional<Restorable>> latest() const;
  /// Return the newest checkpoint of which every byte verifies. Tries older ones when a newer one
  /// is damaged (Corrupt, NotFound, Io). Returns any other error: a newer one may be whole.
  Result<RestoreChoice> open_for_restore() const;
  /// Verify one checkpoint by number; Corrupt, InvalidArgument or NotFound say what is wrong.
  Result<Manifest> verify(CheckpointNumber number) const;
  /// Return the number after the highest that this folder shows: committed, being removed, or
  /// broken.
  virtual Result<CheckpointNumber> next_number() const;

  /// Remove a committed checkpoint. The removal of its name is synced before any file is removed.
  virtual Result<Unit> remove(CheckpointNumber number);
  /// Remove a pending checkpoint whose shard failed, or whose attempt ended.
  virtual Result<Unit> discard(const PendingCheckpoint& pending);
  /// Remove what attempts before this one handed over and nobody will commit.
  virtual Result<Unit> discard_before(Attempt attempt);

  std::string path_of(CheckpointNumber number) const {
    return join_path(folder_, checkpoint_name(number));
  }
  const std::string& folder() const { return folder_; }

 private:
  FileSystem& fs_;
  std::string folder_;
};

}  // namespace train
