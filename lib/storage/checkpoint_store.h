// The committed checkpoints of one run: <run>/checkpoints. The launcher commits the shards that
// supervisors wrote (checkpoint_writer.h), lists, verifies, restores and removes; other programs
// read. It decides nothing about which to keep: that is retention.h. All calls block; one thread at
// a time writes, and only the run's owner (run_lock.h).
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
  // Structurally checked (FORMAT.md section 3), or why it cannot be used.
  Result<Manifest> manifest;
  // Nothing where it was not validated, or where what says so cannot be read.
  std::optional<ValidationRecord> validation = {};

  /// What decides about it: the reported ones, those of the validation over them.
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

/// Merge the shards of all ranks into the files of one checkpoint. Pure. Same path and same bytes:
/// once; different bytes: an error that names the file and both ranks; a rank missing or doubled:
/// an error.
Result<std::vector<ManifestFile>> merge_shards(const std::vector<CheckpointShard>& shards,
                                               int world_size);

/// What will be written of it. Pure; the errors of merge_shards.
Result<Manifest> manifest_of(const CommitRequest& request);

/// Told after each piece how many bytes were read; its error ends the work.
using OnBytes = std::function<Result<Unit>(std::uint64_t)>;

/// Sizes of all files that are here against the manifest. Corrupt names the file, expected and
/// found.
Result<Unit> check_structure(FileSystem& fs, const std::string& folder, const Manifest& manifest);
/// Corrupt unless `found` is the digest of `file`.
Result<Unit> check_digest(const std::string& folder, const ManifestFile& file, const Digest& found);
/// Sizes and digests of all files that are here, some of them at once: `on_bytes` is called by
/// several threads. Reads every byte, unless one is found that is not whole.
Result<Unit> verify_files(FileSystem& fs, const std::string& folder, const Manifest& manifest,
                          const OnBytes& on_bytes = {});
/// The manifest of any folder, of this run or another, once all files have its sizes.
Result<Manifest> read_checkpoint(FileSystem& fs, const std::string& folder);
/// Manifest and files of any folder, of this run or another (resume_from_checkpoint).
Result<Manifest> verify_checkpoint(FileSystem& fs, const std::string& folder);
/// Unavailable where files are on nodes' disks instead (ManifestFile::nodes); it names those.
Result<Unit> check_all_here(const std::string& folder, const Manifest& manifest);
/// Its files, safe on disk, have all come here from nodes: say so in its manifest. For the owner.
Result<Unit> keep_here(FileSystem& fs, const std::string& folder);
/// There is no such folder: one whose owner removes it loses its name first.
bool is_gone(FileSystem& fs, const std::string& folder);

/// Reads through any FileSystem; how a checkpoint comes and goes is that of a folder on a file
/// system, and otherwise in object_checkpoint_store.h.
class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}
  virtual ~CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Make the folder, finish removals that were cut short, and discard pending checkpoints of
  /// generations before `current` but `keep` (those of an attempt that outlived its launcher). What
  /// was discarded, by name. For the owner only.
  virtual Result<std::vector<std::string>> open(Generation current,
                                                const std::vector<PendingCheckpoint>& keep = {});
  /// What was handed over and is not committed.
  virtual Result<std::vector<PendingCheckpoint>> pending() const;

  /// Make the shards one committed checkpoint. When it returns, the checkpoint survives a power
  /// cut. `may_commit` is asked last, just before the name appears: the fence against an owner that
  /// was replaced (RunLock::check). On an error nothing was acknowledged and no earlier checkpoint
  /// is touched; discard() the pending one then.
  virtual Result<Manifest> commit(const CommitRequest& request,
                                  const std::function<Result<Unit>()>& may_commit);

  /// All committed ones, oldest first, those that cannot be used included; one that the owner
  /// removes meanwhile is left out. An empty list where there is no folder.
  Result<std::vector<ListedCheckpoint>> list() const;
  /// One of the list; NotFound where there is none of this number.
  Result<ListedCheckpoint> find(CheckpointNumber number) const;
  /// The newest that is structurally whole.
  Result<std::optional<Restorable>> latest() const;
  /// The newest of which every byte verifies; older ones are tried when it does not.
  Result<RestoreChoice> open_for_restore() const;
  /// One by number; Corrupt, InvalidArgument or NotFound say what is wrong.
  Result<Manifest> verify(CheckpointNumber number) const;
  /// One above every number that this folder shows: committed, being removed, or broken.
  virtual Result<CheckpointNumber> next_number() const;

  /// Remove a committed checkpoint: it loses its name, safely, before it loses a file.
  virtual Result<Unit> remove(CheckpointNumber number);
  /// Remove a pending one: a shard failed, or its attempt ended.
  virtual Result<Unit> discard(const PendingCheckpoint& pending);
  /// Remove what attempts before this one have handed over and nobody will commit.
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
