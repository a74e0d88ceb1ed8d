// The committed checkpoints of a run in an object store. Nothing can be renamed there. So files are
// uploaded under a name that belongs to one shard of one pending checkpoint, and the manifest says
// where each of them lies. The manifest is put on the condition that no other launcher has put one
// of that number. A node that was cut off writes only under the names of its own attempt, so it
// cannot harm what is committed. A launcher that takes over closes the next number before it
// removes anything, so that a commit of the previous launcher that is still on its way fails.
// FORMAT.md section 7.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/object_files.h"

namespace train {

inline constexpr std::string_view kObjectCheckpoints = "checkpoints";  // key, below the run

/// Return the key of a checkpoint's ".manifest.json".
std::string manifest_key(CheckpointNumber number);
/// Return the text that takes the place of a manifest when no checkpoint may get this number any
/// more.
std::string closed_text(Generation by);
bool is_closed_text(std::string_view text);
inline constexpr std::uint64_t kClosedBytesMax = 64;

/// Upload `staged`, a folder of this machine, as the shard of `rank`. Bytes are digested on the
/// way; commit() checks that the store holds all of them. On an error nobody uses any of it, and
/// the caller may try again; `on_bytes` may end the upload.
Result<CheckpointShard> upload_shard(FileSystem& local, ObjectStore& store,
                                     const PendingCheckpoint& pending, Rank rank,
                                     const std::string& staged, const OnBytes& on_bytes = {});

class ObjectCheckpointStore final : public CheckpointStore {
 public:
  /// `url`: the run's; `files` shows it.
  ObjectCheckpointStore(ObjectFiles& files, const std::string& url)
      : CheckpointStore(files, join_path(url, kObjectCheckpoints)), store_(files.store()) {}

  Result<std::vector<std::string>> open(Generation current,
                                        const std::vector<PendingCheckpoint>& keep = {}) override;
  Result<std::vector<PendingCheckpoint>> pending() const override;
  /// Commit. After an error other than Corrupt and InvalidArgument nobody knows whether the
  /// checkpoint is committed.
  Result<Manifest> commit(const CommitRequest& request,
                          const std::function<Result<Unit>()>& may_commit) override;
  Result<CheckpointNumber> next_number() const override;
  Result<Unit> remove(CheckpointNumber number) override;
  /// Discard a pending checkpoint, unless it is committed or its commit may have worked. In the
  /// latter case it goes with its attempt (discard_before), or when the next launcher opens the
  /// store.
  Result<Unit> discard(const PendingCheckpoint& pending) override;
  Result<Unit> discard_before(Attempt attempt) override;

 private:
  struct Survey;
  Result<Survey> survey() const;
  Result<Unit> close_next();
  Result<Unit> close_numbers_before(CheckpointNumber number);
  Result<bool> is_committed_after_all(const PendingCheckpoint& pending);
  /// Return whether a manifest that cannot be read may name this data.
  bool may_be_named(const PendingCheckpoint& pending) const {
    return unreadable_ && pending.generation < generation_;
  }
  Result<Unit> remove_below(const std::string& key, const std::string& but = {});
  Result<std::vector<std::string>> check_uploaded(const PendingCheckpoint& pending,
                                                  const Manifest& manifest);

  ObjectStore& store_;
  Generation generation_{1};
  Attempt dropped_before_{0};  // unfinished uploads of attempts before it have been dropped
  bool unreadable_ = false;    // open() found a damaged manifest of an earlier launcher
  CheckpointNumber closed_;    // by open(): up to it others have committed
  std::optional<CheckpointNumber> taken_;  // the highest that is committed or closed
  std::map<PendingCheckpoint, CheckpointNumber> committed_;  // whose data is some checkpoint's
  std::map<PendingCheckpoint, CheckpointNumber> in_doubt_;   // commits whose end is not known
};

}  // namespace train
